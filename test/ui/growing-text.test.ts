import { describe, expect, it } from "vitest";
import { GrowingText, split } from "../../src/ui/parts/growing-text.ts";

const BLOCKS = [
  "# A heading",
  "A paragraph with **bold** words\nand a second line.",
  "- one\n- two\n\n  inside two\n- three",
  "1. first\n2. second",
  "```ts\nconst x = 1;\n\nconst y = 2;\n```",
  "| a | b |\n|---|---|\n| 1 | 2 |",
  "> quoted\n> more",
  "Title\n=====",
  "    indented code",
  "---",
  "last words",
];
const SOURCES: Readonly<Record<string, string>> = {
  "line ends of Unix": BLOCKS.join("\n\n"),
  "line ends of Windows": BLOCKS.join("\n\n").replaceAll("\n", "\r\n"),
  "line ends of both kinds": BLOCKS.map((text, index) =>
    index % 2 ? text.replaceAll("\n", "\r\n") : text,
  ).join("\r\n\n"),
  "a long paragraph after others": `Before.\n\n${"- word # word ".repeat(700)}\n\nafter`,
  "a long word of wide characters": `${"x".repeat(3_999)}${"😀".repeat(3_000)}`,
};

/** Everything that is shown. */
const shown = (blocks: readonly { raw: string }[]): string =>
  blocks
    .map(({ raw }) => raw)
    .join("")
    .replaceAll(/\s/g, "");

describe("a text that grows", () => {
  it.each(Object.entries(SOURCES))("has no character twice or missing: %s", (_, text) => {
    const growing = new GrowingText();
    for (let end = 1; end <= text.length; end += text.length > 2_000 ? 173 : 1) {
      const now = text.slice(0, end);
      expect(shown(growing.read(now))).toBe(now.replaceAll(/\s/g, ""));
    }
    expect(shown(growing.read(text))).toBe(text.replaceAll(/\s/g, ""));
  });

  it("has the blocks of the whole text at its end", () => {
    const text = BLOCKS.join("\n\n");
    const growing = new GrowingText();
    for (let end = 1; end < text.length; end++) growing.read(text.slice(0, end));
    const whole = split(text).filter(({ type }) => type !== "space");
    expect(growing.read(text).map(({ type }) => type)).toEqual(whole.map(({ type }) => type));
  });

  it("lays out parts of a long paragraph, wherever it stands, and begins anew for another text", () => {
    const growing = new GrowingText();
    const long = "word ".repeat(5_000);
    let blocks = growing.read("Before.\n\nword ");
    for (let end = 4_500; end <= long.length; end += 500)
      blocks = growing.read(`Before.\n\n${long.slice(0, end)}`);
    expect(blocks.length).toBeGreaterThan(5);
    expect(Math.max(...blocks.map(({ raw }) => raw.length))).toBeLessThan(9_000);
    expect(shown(growing.read("other"))).toBe("other");
  });
});
