import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { describe, expect, it } from "vitest";

/** Which room may import which (design: each knows only those to its left). */
const MAY_IMPORT: Record<string, readonly string[]> = {
  contract: [],
  disk: [],
  sqlite: ["contract"],
  log: ["contract", "sqlite"],
  spool: ["contract", "disk"],
  sandbox: ["contract", "disk"],
  harness: ["contract"],
  dialects: ["contract"],
  client: ["contract"],
  tools: ["contract"],
  model: ["contract", "harness"],
  sessions: ["contract", "sqlite", "log", "spool", "sandbox", "harness", "dialects", "tools"],
  catalog: ["contract", "sqlite"],
  http: ["contract", "log", "catalog", "dialects", "sessions"],
  tanstack: ["contract", "client", "spool", "sandbox", "harness"],
  sdk: ["contract", "log", "catalog", "sandbox", "harness", "dialects", "client", "sessions"],
  cli: [
    "contract",
    "log",
    "spool",
    "sandbox",
    "harness",
    "dialects",
    "client",
    "sessions",
    "http",
    "sdk",
    "model",
    "catalog",
    "sqlite",
  ],
};

/** Node itself, and the rooms that need it. */
const NODE =
  /^node:|^\.\.\/(?:disk|log|spool|sandbox|harness|sessions|sqlite|catalog|tools)\/|^\.\/sandbox\//;

const SRC = resolve(import.meta.dirname, "../../src");

describe("the rooms", () => {
  const files = sourceFiles(SRC);

  it("has every file in a room that the table knows", () => {
    const rooms = new Set(files.map((file) => relative(SRC, file).split("/")[0]));
    rooms.delete("index.ts");
    for (const room of rooms) expect(Object.keys(MAY_IMPORT)).toContain(room);
  });

  it.each(files.map((file) => [relative(SRC, file), file] as const))(
    "%s imports only to its left",
    (name, file) => {
      const room = name.split("/")[0] ?? "";
      if (room === "index.ts") return;
      for (const specifier of imports(file).filter((specifier) => specifier.startsWith("."))) {
        const target = relative(SRC, resolve(dirname(file), specifier)).split("/")[0] ?? "";
        expect([room, ...(MAY_IMPORT[room] ?? [])], `${name} imports ${specifier}`).toContain(target);
      }
    },
  );

  it.each(
    files
      .filter((file) => /^(?:(?:contract|client|dialects)\/|tanstack\/[^/]+$)/.test(relative(SRC, file)))
      .map((file) => [relative(SRC, file), file]),
  )("%s needs no Node", (name, file) => {
    for (const specifier of imports(file ?? "")) expect(specifier, name).not.toMatch(NODE);
  });
});

function sourceFiles(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
    .map((entry) => join(entry.parentPath, entry.name));
}

function imports(file: string): string[] {
  const text = readFileSync(file, "utf8");
  return [...text.matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)].map((match) => match[1] ?? "");
}
