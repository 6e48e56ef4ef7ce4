import pc from "picocolors";
import { describe, expect, it } from "vitest";
import type { Item, SluiceEvent } from "../../src/contract/index.ts";
import { called, event, message, pieces, render, result, streamed } from "./transcript-events.ts";

const garbage = (): SluiceEvent =>
  event("agent.unparsed", { error: "not JSON", location: "out:1", raw_hash: "x" });
const end = (): SluiceEvent =>
  event("turn.ended", { turn_id: "t", status: "completed", stop_reason: "end_turn" });

describe("the transcript", () => {
  it("shows a prompt, a command with its output, and an answer", () => {
    const user = message("u", "look around", { role: "user" });
    const text = render([
      event("turn.started", { turn_id: "t", input_ids: [] }),
      event("item.started", { item: user }),
      event("item.completed", { item: user }),
      called("c", "shell", { command: "ls -la" }),
      ...result("c", "a.txt\nb.txt\n"),
      ...streamed("m", ["Two ", "files", "."]),
      event(
        "turn.ended",
        {
          turn_id: "t",
          status: "completed",
          stop_reason: "end_turn",
          usage: { input_tokens: 1200, output_tokens: 34 },
        },
        { time: "2026-01-01T00:00:01.500Z" },
      ),
    ]);
    expect(text).toBe(
      [
        "› look around",
        "",
        "● shell  ls -la",
        "  a.txt",
        "  b.txt",
        "",
        "Two files.",
        "",
        "✓ done in 1.5 s · 1,200 tokens in, 34 out",
        "  session s1 · replay it: sluice tail s1",
        "",
      ].join("\n"),
    );
  });

  it("prints each delta at once in a pipe", () => {
    expect(pieces(streamed("m", ["Hel", "lo wor", "ld"]))).toEqual(["", "Hel", "lo wor", "ld", "\n"]);
  });

  it("wraps words at a terminal, also words of two deltas", () => {
    const text = render(streamed("m", ["one two th", "ree four", " five"]), { width: 12 });
    expect(text).toBe("one two\nthree four\nfive\n");
  });

  it("keeps leading spaces", () => {
    expect(render(streamed("m", ["if x:\n", "    y\n\n", "z"]), { width: 40 })).toBe("if x:\n    y\n\nz\n");
  });

  it("shortens long output and names the command for all of it", () => {
    const output = Array.from({ length: 320 }, (_, n) => `line ${n + 1}`).join("\n");
    const lines = render([called("c", "shell", { command: "seq" }), ...result("c", output)])
      .trimEnd()
      .split("\n");
    expect(lines.slice(1, 3)).toEqual(["  line 1", "  line 2"]);
    expect(lines.slice(8)).toEqual([
      "  line 8",
      "  … 312 more lines, sluice tail s1 --as universal shows all",
    ]);
  });

  it("shows the last lines of a failed command", () => {
    const output = Array.from({ length: 20 }, (_, n) => `line ${n + 1}`).join("\n");
    const lines = render([
      called("c", "shell", { command: "make" }),
      ...result("c", output, { status: "failed" }),
    ]);
    expect(lines.trimEnd().split("\n").slice(8)).toEqual([
      "  line 8",
      "  … 8 more lines, sluice tail s1 --as universal shows all",
      "  line 17",
      "  line 18",
      "  line 19",
      "  line 20",
      "  ✗ failed",
    ]);
  });

  it("streams output in whole lines, and repeats the header of a late result", () => {
    const [started, completed] = result("a", "1\n2\n") as [SluiceEvent, SluiceEvent];
    const text = render([
      called("a", "shell", { command: "first" }),
      started,
      event("item.delta", { item_id: "ra", delta: "1\n2" }),
      called("b", "shell", { command: "second" }),
      ...result("b", "x"),
      event("item.delta", { item_id: "ra", delta: "\n" }),
      completed,
    ]);
    expect(text).toBe("● shell  first\n  1\n\n● shell  second\n  x\n\n● shell  first\n  2\n");
  });

  it("shows a call once, also if the text before it ends later", () => {
    const words = streamed("m", ["I ", "begin"]);
    const closed = words.pop() as SluiceEvent;
    const text = render([...words, called("a", "shell", { command: "ls" }), closed, ...result("a", "x")]);
    expect(text).toBe("I begin\n\n● shell  ls\n  x\n");
  });

  it("shows files and coloured diffs", () => {
    const file = {
      type: "file_ref" as const,
      path: "a.txt",
      action: "patch" as const,
      diff: "@@ -1 +1 @@\n-old\n+new\n",
    };
    const content: Item["content"] = [{ type: "tool_result", call_id: "c", output: "" }, file];
    const text = render([called("c", "edit", { path: "a.txt" }), ...result("c", "", { content })], {
      color: true,
    });
    const paint = pc.createColors(true);
    expect(text).toBe(
      [
        `${paint.cyan("●")} ${paint.bold("edit")}  a.txt`,
        `  ${paint.green("✎ edited a.txt")}`,
        paint.cyan("    @@ -1 +1 @@"),
        paint.red("    -old"),
        paint.green("    +new"),
        "",
      ].join("\n"),
    );
  });

  it("shows the diff of a pending call, and not again at its end", () => {
    const diff = "@@ -1 +1 @@\n-old\n+new\n";
    const file = { type: "file_ref" as const, path: "a.txt", action: "write" as const, diff };
    const call = called("c", "write", { path: "a.txt" });
    if (call.type === "item.completed") call.data.item.content.push(file);
    const content: Item["content"] = [{ type: "tool_result", call_id: "c", output: "Wrote 3 bytes" }, file];
    const permission = { permission_id: "p", action: "write" };
    const text = render([
      call,
      event("permission.requested", { ...permission, status: "requested" }),
      event("permission.resolved", { ...permission, status: "approved" }),
      ...result("c", "", { content }),
    ]);
    expect(text.match(/\+new/g)).toHaveLength(1);
    expect(text.match(/✎ wrote a\.txt/g)).toHaveLength(1);
    expect(text.indexOf("+new")).toBeLessThan(text.indexOf("? permission"));
    expect(text.indexOf("? permission")).toBeLessThan(text.indexOf("✎ wrote"));
  });

  it("counts unreadable lines beyond a few", () => {
    const text = render([...Array.from({ length: 1_200 }, garbage), end(), garbage(), end()]);
    expect(text.match(/· a line that could not be read/g)).toHaveLength(6);
    expect(text).toContain(
      "· 1,195 more lines that could not be read, sluice tail s1 --as universal shows all\n",
    );
    expect(text.match(/more lines/g)).toHaveLength(1);
  });
});
