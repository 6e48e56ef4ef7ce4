import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fromUnifiedDiff, undoUnifiedDiff } from "../../../src/dialects/sdk/tool-display.ts";
import { toUnifiedDiff } from "../../../src/text/unified-diff.ts";

describe("the texts of a diff (EV-43)", () => {
  it("undoes any diff", () => {
    const text = fc
      .array(fc.constantFrom("a", "b", "c", "", "-x", "+y", "@@", "\\ z"), { maxLength: 14 })
      .chain((rows) => fc.constantFrom(rows.join("\n"), rows.map((line) => `${line}\n`).join("")));
    fc.assert(
      fc.property(text, text, (before, after) => {
        fc.pre(before !== after);
        expect(undoUnifiedDiff(toUnifiedDiff("f", before, after), after)).toBe(before);
      }),
    );
  });

  it("undoes several hunks, and returns undefined if text and diff do not match", () => {
    const diff = "--- a/f\n+++ b/f\n@@ -1,2 +1 @@\n-one\n two\n@@ -9 +8,2 @@\n nine\n+ten\n";
    const after = "two\n3\n4\n5\n6\n7\n8\nnine\nten\nrest\n";
    expect(undoUnifiedDiff(diff, after)).toBe("one\ntwo\n3\n4\n5\n6\n7\n8\nnine\nrest\n");
    expect(undoUnifiedDiff(diff, "two\n")).toBeUndefined();
    expect(undoUnifiedDiff("", "two\n")).toBeUndefined();
  });

  it("has the texts of the hunks, and null before a new file", () => {
    expect(fromUnifiedDiff("--- a/f\n+++ b/f\n@@ -4,2 +4,2 @@\n same\n-old\n+new\n")).toEqual({
      oldText: "same\nold\n",
      newText: "same\nnew\n",
    });
    expect(
      fromUnifiedDiff("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+new\n\\ No newline at end of file\n"),
    ).toEqual({ oldText: null, newText: "new" });
  });
});
