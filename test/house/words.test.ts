import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { listFiles, ROOT, SRC } from "../../scripts/source-graph.mjs";

/** Words that the glossary in AGENTS.md has replaced, each with the trade's word for it. */
const REPLACED: Readonly<Record<string, string>> = {
  seal: "encrypt, serialise",
  sealed: "encrypted, serialised",
  unseal: "decrypt",
  teller: "projection",
  tellers: "projections",
  house: "tree, project",
  "far end": "peer, egress host",
  "outer end": "egress host",
  "inner end": "egress guest",
  "way out": "egress",
  whosoever: "the noun",
  "in vain": "without result",
  subscriber: "reader",
  drawer: "a folder by noun",
  dossier: "record",
  errand: "request",
  whence: "from which",
};

const FILES = listFiles(SRC).filter((file) => /\.tsx?$/.test(file));

describe("the words of src", () => {
  it("has no double cast in the rooms whose frames and answers have types", () => {
    const rooms = FILES.filter((file) => file.startsWith("http/") || file.startsWith("dialects/"));
    const casts = rooms.filter((file) => readFileSync(join(SRC, file), "utf8").includes("as unknown as"));
    expect(rooms.length).toBeGreaterThan(0);
    expect(casts).toEqual([]);
  });

  it.each(Object.entries(REPLACED))('has no "%s": %s', (word) => {
    const found = new RegExp(`\\b${word}\\b`);
    const places = FILES.flatMap((file) =>
      toWords(readFileSync(join(SRC, file), "utf8"))
        .map((line, index) => (found.test(line) ? `${file}:${index + 1}` : ""))
        .filter(Boolean),
    );
    expect(places).toEqual([]);
  });

  it("sees a word inside an identifier, and none inside a quoted text", () => {
    expect(toWords("const sealedText = 1; // whoever asks")[0]).toMatch(/\bsealed text\b.*\bwhoever\b/);
    expect(toWords('row["sealed"] + `\n sealed`')).toEqual(["row[] + ", ""]);
  });
});

describe("the glossary of AGENTS.md", () => {
  const guide = readFileSync(join(ROOT, "AGENTS.md"), "utf8");
  const table = guide.split("| term | meaning | not to be confused with |\n")[1]?.split("\n\n")[0] ?? "";
  const rows = table.split("\n").slice(1);

  it("has three cells in every row, and each term once", () => {
    expect(rows.length).toBeGreaterThan(35);
    for (const row of rows) expect(row).toMatch(/^\| [^|]+ \| [^|]+ \| [^|]+ \|$/);
    const terms = rows.map((row) => row.split(" | ")[0]);
    expect(terms).toEqual([...new Set(terms)]);
  });

  it("uses none of the words that it has replaced", () => {
    const words = table.toLowerCase();
    expect(Object.keys(REPLACED).filter((word) => new RegExp(`\\b${word}\\b`).test(words))).toEqual([
      "subscriber",
    ]);
  });
});

/** Comments stay; texts in quotes or backticks become as many line breaks as they had. */
const TEXTS = /\/\*[\s\S]*?\*\/|\/\/[^\n]*|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\[\s\S])*`/g;

/** The lines of a source as lower-case words: identifiers are split, texts are left out. */
function toWords(source: string): string[] {
  return source
    .replaceAll(TEXTS, (text) => (text.startsWith("/") ? text : text.replaceAll(/[^\n]/g, "")))
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replaceAll(/[_#]/g, " ")
    .toLowerCase()
    .split("\n");
}
