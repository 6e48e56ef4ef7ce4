import pc from "picocolors";
import { describe, expect, it } from "vitest";
import type { Item } from "../../src/contract/index.ts";
import { called, entry, event, message, render, result, streamed } from "./transcript-events.ts";

describe("the transcript of requests and endings", () => {
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

  it("shows only the changed entries of a known plan", () => {
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

  it("shows the error and the remedy", () => {
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

  it("shows the reason of an agent's death", () => {
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

  it("removes control sequences of the agent", () => {
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
