import pc from "picocolors";
import { describe, expect, it } from "vitest";
import { renderEvent } from "../../src/cli/transcript.ts";
import { initialTranscript } from "../../src/cli/transcript/state.ts";
import type { EventData, EventType, Item, SluiceEvent } from "../../src/contract/index.ts";

let sequence = 0;

function event<T extends EventType>(
  type: T,
  data: EventData<T>,
  more: Partial<SluiceEvent> = {},
): SluiceEvent {
  sequence += 1;
  const envelope = {
    event_id: `evt_${sequence}`,
    sequence,
    session_id: "s1",
    source: "agent",
    synthetic: false,
  };
  return { ...envelope, time: "2026-01-01T00:00:00.000Z", type, data, ...more } as SluiceEvent;
}

function render(events: readonly SluiceEvent[], options: { color?: boolean; width?: number } = {}): string {
  return pieces(events, options).join("");
}

function pieces(events: readonly SluiceEvent[], options: { color?: boolean; width?: number } = {}): string[] {
  let state = initialTranscript({
    paint: pc.createColors(options.color ?? false),
    width: options.width ?? Infinity,
  });
  return events.map((event) => {
    const rendered = renderEvent(state, event);
    state = rendered.state;
    return rendered.text;
  });
}

function message(id: string, text: string, more: Partial<Item> = {}): Item {
  return {
    item_id: id,
    kind: "message",
    role: "assistant",
    status: "completed",
    content: [{ type: "text", text }],
    ...more,
  };
}

function streamed(id: string, deltas: readonly string[], kind: "text" | "reasoning" = "text"): SluiceEvent[] {
  const part = (text: string) =>
    kind === "text"
      ? { type: "text" as const, text }
      : { type: "reasoning" as const, text, visibility: "public" as const };
  const item = (text: string, status: Item["status"]): Item => ({
    item_id: id,
    kind: "message",
    role: "assistant",
    status,
    content: [part(text)],
  });
  return [
    event("item.started", { item: item("", "in_progress") }),
    ...deltas.map((delta) => event("item.delta", { item_id: id, delta })),
    event("item.completed", { item: item(deltas.join(""), "completed") }),
  ];
}

function called(id: string, name: string, args: unknown): SluiceEvent {
  const content = [{ type: "tool_call" as const, name, arguments: JSON.stringify(args), call_id: id }];
  return event("item.completed", {
    item: { item_id: `i${id}`, kind: "tool_call", status: "completed", content },
  });
}

function result(id: string, output: string, more: Partial<Item> = {}): SluiceEvent[] {
  const item: Item = {
    item_id: `r${id}`,
    kind: "tool_result",
    role: "tool",
    status: "completed",
    content: [{ type: "tool_result", call_id: id, output }],
    ...more,
  };
  const started: Item = {
    ...item,
    status: "in_progress",
    content: [{ type: "tool_result", call_id: id, output: "" }],
  };
  return [event("item.started", { item: started }), event("item.completed", { item })];
}

function entry(content: string, status: "pending" | "in_progress" | "completed") {
  return { content, status, priority: "medium" as const };
}

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

  it("prints each delta as it comes in a pipe", () => {
    expect(pieces(streamed("m", ["Hel", "lo wor", "ld"]))).toEqual(["", "Hel", "lo wor", "ld", "\n"]);
  });

  it("wraps words at a terminal and never breaks one that comes in two deltas", () => {
    const text = render(streamed("m", ["one two th", "ree four", " five"]), { width: 12 });
    expect(text).toBe("one two\nthree four\nfive\n");
  });

  it("keeps the spaces that lines start with", () => {
    expect(render(streamed("m", ["if x:\n", "    y\n\n", "z"]), { width: 40 })).toBe("if x:\n    y\n\nz\n");
  });

  it("cuts long output and says how to see all of it", () => {
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

  it("shows the last lines of what failed", () => {
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

  it("streams output in whole lines, and repeats the header of a result that comes late", () => {
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

  it("shows a call once although the words before it are closed behind it", () => {
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

  it("shows what a call would overwrite, and does not show it again when it is done", () => {
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

  it("counts what cannot be read rather than fill the screen with it", () => {
    const garbage = (): SluiceEvent =>
      event("agent.unparsed", { error: "not JSON", location: "out:1", raw_hash: "x" });
    const end = (): SluiceEvent =>
      event("turn.ended", { turn_id: "t", status: "completed", stop_reason: "end_turn" });
    const text = render([...Array.from({ length: 1_200 }, garbage), end(), garbage(), end()]);
    expect(text.match(/· a line that could not be read/g)).toHaveLength(6);
    expect(text).toContain(
      "· 1,195 more lines that could not be read, sluice tail s1 --as universal shows all\n",
    );
    expect(text.match(/more lines/g)).toHaveLength(1);
  });

  it("shows a plan as a checklist, once", () => {
    const status: Item = {
      item_id: "p",
      kind: "status",
      status: "completed",
      content: [
        { type: "status", label: "Plan", detail: "1 of 3" },
        { type: "json", json: { entries: [entry("look", "completed")] } },
      ],
    };
    const text = render([
      event("plan.updated", {
        entries: [entry("look", "completed"), entry("write", "in_progress"), entry("say", "pending")],
      }),
      event("item.completed", { item: status }),
    ]);
    expect(text).toBe("Plan\n  ✓ look\n  ▸ write\n  ○ say\n");
  });

  it("shows only what has moved in a plan that it has shown", () => {
    const text = render([
      event("plan.updated", { entries: [entry("look", "in_progress"), entry("say", "pending")] }),
      event("plan.updated", { entries: [entry("look", "completed"), entry("say", "pending")] }),
    ]);
    expect(text).toBe("Plan\n  ▸ look\n  ○ say\n\n  ✓ look\n");
  });

  it("shows permissions, questions and their answers", () => {
    const permission = { permission_id: "p", action: "shell" };
    const question = { question_id: "q", prompt: "Which one?", options: ["red", "blue"] };
    const text = render([
      event("permission.requested", { ...permission, status: "requested" }),
      event("permission.resolved", { ...permission, status: "denied" }),
      event("question.requested", { ...question, status: "requested" }),
      event("question.resolved", { ...question, status: "answered", response: "blue" }),
    ]);
    expect(text).toBe("? permission  shell\n  ✗ denied\n\n? Which one?\n  1. red\n  2. blue\n  ✓ blue\n");
  });

  it("keeps a call, its permission and its result together", () => {
    const permission = { permission_id: "p", action: "shell", metadata: { input: { command: "ls" } } };
    const text = render([
      called("c", "shell", { command: "ls" }),
      event("permission.requested", { ...permission, status: "requested" }),
      event("permission.resolved", { ...permission, status: "approved" }),
      ...result("c", "a.txt"),
    ]);
    expect(text).toBe("● shell  ls\n\n? permission  shell  ls\n  ✓ approved\n  a.txt\n");
  });

  it("says what went wrong and what to do", () => {
    const error = { code: "model_overloaded", message: "Overloaded" };
    const text = render([
      event("turn.started", { turn_id: "t", input_ids: [] }),
      event("turn.retrying", { turn_id: "t", attempt: 2, max_attempts: 4, delay_ms: 250, error }),
      event("turn.ended", { turn_id: "t", status: "failed", stop_reason: "retries_exhausted", error }),
    ]);
    expect(text).toBe(
      [
        "↻ Overloaded: try 2 of 4 in 250 ms",
        "",
        "✗ failed: Overloaded in 0 ms",
        "  The model stayed unavailable. Try again later, or give the session a larger retry budget.",
        "  session s1 · replay it: sluice tail s1",
        "",
      ].join("\n"),
    );
  });

  it("shows why an agent died", () => {
    const stderr = { head: "boom\n", truncated: false, total_lines: 1 };
    const text = render([
      event("session.ended", {
        reason: "error",
        terminated_by: "agent",
        message: "the agent exited",
        exit_code: 3,
        stderr,
      }),
    ]);
    expect(text).toBe("✗ session ended: the agent exited (exit code 3)\n  boom\n");
  });

  it("lets no agent steer the terminal", () => {
    const text = render(streamed("m", ["\u001B[2J\u001B]0;owned\u0007a\u001B[31mb\u0007\r\nc\u202Ed"]));
    expect(text).toBe("ab\ncd\n");
  });

  it("dims thoughts and indents sub-agents", () => {
    const paint = pc.createColors(true);
    expect(render(streamed("m", ["hm"], "reasoning"), { color: true })).toBe(`${paint.dim("hm")}\n`);
    const nested = event("item.completed", { item: message("n", "inside") }, { parent_id: "call" });
    expect(render([nested])).toBe("  inside\n");
  });
});
