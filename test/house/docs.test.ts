import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { ERRORS } from "../../src/contract/index.ts";
import { coverageOf, FEATURES, harnesses } from "../../src/harness/index.ts";

const ROOT = resolve(import.meta.dirname, "../..");

/** Tables that say what the code says; `UPDATE_DOCS=1 npm test test/house` writes them anew. */
describe("the documents", () => {
  it.each([
    ["PROTOCOL.md", "errors", errorTable()],
    ["README.md", "agents", agentTable()],
  ])("%s has the true table of %s", (file, name, table) => {
    const path = resolve(ROOT, file);
    const text = readFileSync(path, "utf8");
    const [begin, end] = [`<!-- ${name}:begin -->\n`, `<!-- ${name}:end -->`];
    const [head, rest] = [text.slice(0, text.indexOf(begin) + begin.length), text.slice(text.indexOf(end))];
    const wanted = head + table + rest;
    if (process.env["UPDATE_DOCS"]) writeFileSync(path, wanted);
    expect(text.includes(begin) && text.includes(end)).toBe(true);
    expect(readFileSync(path, "utf8")).toBe(wanted);
  });

  it("PROTOCOL.md names every event type", async () => {
    const { EVENT_TYPES } = await import("../../src/contract/index.ts");
    const text = readFileSync(resolve(ROOT, "PROTOCOL.md"), "utf8");
    for (const type of EVENT_TYPES) {
      const family = `\`${type.split(".")[0]}.*\``;
      expect(text.includes(`\`${type}\``) || text.includes(family), type).toBe(true);
    }
  });
});

function errorTable(): string {
  const rows = Object.entries(ERRORS).map(([code, row]) => `| \`${code}\` | ${row.status} | ${row.title} |`);
  return ["| code | status | title |", "|---|---|---|", ...rows, ""].join("\n");
}

function agentTable(): string {
  const agents = harnesses.map((harness) => ({ title: harness.title, covers: coverageOf(harness) }));
  const caveats = harnesses.flatMap(({ title, caveat }) =>
    caveat === undefined ? [] : ["", `${title}: ${caveat}.`],
  );
  const rows = FEATURES.map(
    (feature) =>
      `| ${words(feature)} | ${agents.map(({ covers }) => (covers[feature] ? "✓" : "")).join(" | ")} |`,
  );
  return [
    `| | ${agents.map(({ title }) => title).join(" | ")} |`,
    `|---|${agents.map(() => ":-:|").join("")}`,
    ...rows,
    ...caveats,
    "",
  ].join("\n");
}

function words(feature: string): string {
  return feature.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
