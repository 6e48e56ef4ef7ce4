import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readEdges } from "../../scripts/architecture.mjs";
import {
  findCycles,
  MAY_IMPORT,
  readGraph,
  readSpecifiers,
  roomOf,
  SRC,
} from "../../scripts/source-graph.mjs";

/** Node itself, and the rooms that need it. */
const NODE =
  /^node:|^\.\.\/(?:disk|log|spool|sandbox|harness|sessions|sqlite|catalog|tools)\/|^\.\/sandbox\//;

const GRAPH = readGraph();

describe("the rooms", () => {
  it("have every file of src, and each is in the table", () => {
    const rooms = new Set([...GRAPH.keys()].map(roomOf));
    rooms.delete("index.ts");
    expect([...rooms].toSorted()).toEqual(Object.keys(MAY_IMPORT).toSorted());
  });

  it.each([...GRAPH])("%s imports only what the table permits to its room", (file, targets) => {
    const room = roomOf(file);
    const permitted = new Set([room, ...(MAY_IMPORT[room] ?? [])]);
    expect(targets.filter((target) => room !== "index.ts" && !permitted.has(roomOf(target)))).toEqual([]);
  });

  it("use every permission of the table", () => {
    const edges = readEdges();
    const unused = Object.entries(MAY_IMPORT).flatMap(([room, permitted]) =>
      permitted.filter((other) => !edges[room]?.includes(other)).map((other) => `${room} → ${other}`),
    );
    expect(unused).toEqual([]);
  });

  it("have no import cycle between files, imports of types included", () => {
    expect(findCycles(GRAPH)).toEqual([]);
  });

  it.each(
    [...GRAPH.keys()].filter((file) => /^(?:(?:contract|client|dialects|ui)\/|tanstack\/[^/]+$)/.test(file)),
  )("%s needs no Node", (file) => {
    const specifiers = readSpecifiers(readFileSync(join(SRC, file), "utf8"));
    // The page has a folder `log` of its own; the table keeps it out of the rooms that need Node.
    const refused = roomOf(file) === "ui" ? /^node:/ : NODE;
    for (const specifier of specifiers) expect(specifier).not.toMatch(refused);
  });
});

describe("the search for cycles", () => {
  it("finds a circle of two, a longer one, and a file that imports itself", () => {
    const graph = new Map([
      ["a", ["b"]],
      ["b", ["a", "c"]],
      ["c", ["d"]],
      ["d", ["e"]],
      ["e", ["c"]],
      ["f", ["f"]],
      ["g", ["a"]],
    ]);
    expect(findCycles(graph)).toEqual([["c", "d", "e"], ["a", "b"], ["f"]]);
  });

  it("reads imports of every form, and tells types from values", () => {
    const text = [
      'import { a } from "./a.ts";',
      'import type { b } from "./b.ts";',
      'import { type c, type d as e } from "./c.ts";',
      'import f, { type g } from "./d.ts";',
      'export * from "./e.ts";',
      'const h = await import("./f.ts");',
      '// import { i } from "./i.ts";',
    ].join("\n");
    const all = ["./a.ts", "./b.ts", "./c.ts", "./d.ts", "./e.ts", "./f.ts"];
    expect(readSpecifiers(text)).toEqual(all);
    expect(readSpecifiers(text, { values: true })).toEqual(["./a.ts", "./d.ts", "./e.ts", "./f.ts"]);
  });
});
