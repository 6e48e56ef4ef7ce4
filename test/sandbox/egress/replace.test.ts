import { Readable } from "node:stream";
import { describe, expect, it } from "vitest";
import { ReplaceStream } from "../../../src/sandbox/egress/host/lender.ts";

const WORDS: readonly (readonly [string, string])[] = [
  ["PLACE", "the value"],
  ["PLAIN", "p"],
  ["aab", ""],
];
const TEXTS = [
  "",
  "PLACE",
  "PLAPLACE PLAINPLACEPLA",
  "aaab aab aaaaab",
  "PLAC",
  "xxPLAINxxPLACExxPLA",
  "aa".repeat(40),
];

describe("a stream in which words are replaced", () => {
  it.each(TEXTS)("gives the same result for any cuts: %j", async (text) => {
    const pattern = new RegExp(WORDS.map(([from]) => from).join("|"), "g");
    const wanted = text.replaceAll(pattern, (word) => WORDS.find(([from]) => from === word)?.[1] ?? "");
    for (let size = 1; size <= Math.max(1, text.length); size++) {
      const pieces = text.match(new RegExp(`.{1,${size}}`, "gs")) ?? [];
      expect(await through(pieces)).toBe(wanted);
    }
  });

  it("holds nothing back that cannot be the beginning of a word", async () => {
    const stream = toStream();
    stream.write("data: 1\n\n");
    expect(String(stream.read())).toBe("data: 1\n\n");
    stream.write("data: PLA");
    expect(String(stream.read())).toBe("data: ");
    stream.write("CE!");
    expect(String(stream.read())).toBe("the value!");
    stream.destroy();
  });
});

function toStream(): ReplaceStream {
  return new ReplaceStream(WORDS.map(([from, to]) => [Buffer.from(from), Buffer.from(to)] as const));
}

async function through(pieces: readonly string[]): Promise<string> {
  let text = "";
  for await (const chunk of Readable.from(pieces.map((piece) => Buffer.from(piece))).pipe(toStream()))
    text += String(chunk);
  return text;
}
