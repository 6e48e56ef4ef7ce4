import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { filesDiff } from "../../../src/sandbox/diff/files-diff.ts";

describe("the diff of two texts", () => {
  it("shows each change with the lines around it", () => {
    const lines = Array.from({ length: 30 }, (_, index) => `${index}\n`);
    const before = lines.join("");
    const after = lines.with(5, "five\n").toSpliced(20, 1).join("");
    expect(filesDiff(before, after, "a.txt")).toBe(
      [
        "--- a/a.txt",
        "+++ b/a.txt",
        "@@ -3,7 +3,7 @@",
        " 2",
        " 3",
        " 4",
        "-5",
        "+five",
        " 6",
        " 7",
        " 8",
        "@@ -18,7 +18,6 @@",
        " 17",
        " 18",
        " 19",
        "-20",
        " 21",
        " 22",
        " 23",
        "",
      ].join("\n"),
    );
    expect(filesDiff("a", "a", "x")).toBe("");
    expect(filesDiff("a\n", "a", "x")).toContain("-a\n+a\n\\ No newline at end of file\n");
    expect(filesDiff(undefined, "a\n", "ä b")).toBe(
      '--- /dev/null\n+++ "b/\\303\\244 b"\n@@ -0,0 +1 @@\n+a\n',
    );
    const [many, others] = [1, 2].map((kind) =>
      Array.from({ length: 3_000 }, (_, at) => `${kind} ${at}\n`).join(""),
    );
    expect(filesDiff(many, others, "x")).toContain("@@ -1,3000 +1,3000 @@\n");
  });

  it("is one that git can apply", async () => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-files-diff-"));
    const text = fc
      .array(fc.constantFrom("a\n", "b\n", "c\n", "\n", "d d\n"), { maxLength: 30 })
      .chain((lines) => fc.constantFrom(lines.join(""), `${lines.join("")}end`));
    try {
      await fc.assert(
        fc.asyncProperty(text, text, async (before, after) => {
          fc.pre(before !== after && before !== "" && after !== "");
          await writeFile(join(folder, "file.txt"), before);
          const patch = filesDiff(before, after, "file.txt");
          execFileSync("git", ["apply", "--unidiff-zero", "--whitespace=nowarn", "-"], {
            cwd: folder,
            input: patch,
          });
          expect(await readFile(join(folder, "file.txt"), "utf8")).toBe(after);
        }),
        { numRuns: 60 },
      );
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
