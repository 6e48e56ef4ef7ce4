import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { toUnifiedDiff } from "../../src/text/unified-diff.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-diff-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("a unified diff", () => {
  it.each([
    ["a\n", "b\n", "@@ -1 +1 @@\n-a\n+b\n"],
    ["", "b\n", "@@ -0,0 +1 @@\n+b\n"],
    ["a\n", "", "@@ -1 +0,0 @@\n-a\n"],
    ["a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"],
    ["a\nb\n", "a\nx\nb\n", "@@ -1,2 +1,3 @@\n a\n+x\n b\n"],
  ])("from %j to %j", (before, after, hunk) => {
    expect(toUnifiedDiff("f", before, after)).toBe(`--- a/f\n+++ b/f\n${hunk}`);
  });

  it("is empty where nothing differs", () => {
    expect(toUnifiedDiff("f", "a\n", "a\n")).toBe("");
  });

  it("is applied by git to give the other text", () => {
    const text = fc
      .array(fc.constantFrom("a", "b", "c", "", "-x", "+y", "@@"), { maxLength: 14 })
      .chain((rows) => fc.constantFrom(rows.join("\n"), rows.map((line) => `${line}\n`).join("")));
    const differ = fc
      .tuple(text, text)
      .filter(([before, after]) => before !== after && before !== "" && after !== "");
    fc.assert(
      fc.property(differ, ([before, after]) => {
        writeFileSync(join(folder, "f"), before);
        const input = toUnifiedDiff("f", before, after);
        execFileSync("git", ["apply", "--unidiff-zero", "-"], {
          cwd: folder,
          input,
          stdio: ["pipe", "pipe", "pipe"],
        });
        expect(readFileSync(join(folder, "f"), "utf8")).toBe(after);
      }),
      { numRuns: 60 },
    );
  });
});
