import { describe, expect, it } from "vitest";
import type { StoredEventText } from "../../../src/dialects/port.ts";
import { content } from "../../../src/dialects/sdk/index.ts";
import { extractBrowserUseUrls, isBrowserUseTool } from "../../../src/sdk/index.ts";
import { callOf, event, ofKind, reasonsOf, project, updatesOf } from "./emitted.ts";

const image = (path: string, mime?: string): unknown => ({
  item_id: "itm_i",
  kind: "message",
  role: "assistant",
  status: "completed",
  content: [{ type: "image", path, ...(mime ? { mime } : {}) }],
});

const shown = (item: unknown): unknown => {
  const [update] = updatesOf(project([event({ type: "item.completed", data: { item } })]));
  return update;
};

const turn = (background?: true): unknown => ({
  turn_id: "turn_1",
  input_ids: [],
  ...(background ? { options: { background } } : {}),
});

const end = (status: string): unknown => ({ turn_id: "turn_1", status, stop_reason: "end_turn" });

const command = (background?: true): unknown => ({
  command_id: "cmd_1",
  command: "x",
  ...(background ? { background } : {}),
});

const over = (status: string): unknown => ({ command_id: "cmd_1", status });

const face = (name: string, input: unknown = {}): { title: string; kind: string } => {
  const [call] = ofKind(updatesOf(project(callOf(name, input))), "tool_call");
  if (!call) throw new Error(`no call of ${name}`);
  return call;
};

describe("the page's table of tool kinds (EV-39)", () => {
  it.each([
    ["Read", "read"],
    ["NotebookRead", "read"],
    ["Edit", "edit"],
    ["MultiEdit", "edit"],
    ["Write", "edit"],
    ["NotebookEdit", "edit"],
    ["Glob", "search"],
    ["Grep", "search"],
    ["LS", "search"],
    ["Bash", "execute"],
    ["BashOutput", "execute"],
    ["KillShell", "execute"],
    ["Task", "think"],
    ["WebFetch", "fetch"],
    ["WebSearch", "fetch"],
    ["ExitPlanMode", "switch_mode"],
    ["mcp__docs__search", "other"],
    ["something_else", "other"],
  ])("%s is %s", (name, kind) => {
    expect(face(name).kind).toBe(kind);
  });

  it("has readable titles", () => {
    expect(face("Bash", { command: "ls -l" }).title).toBe("`ls -l`");
    expect(face("Read", { file_path: "/a.txt", offset: 5, limit: 10 }).title).toBe("Read /a.txt (5 - 14)");
    expect(face("Edit", { file_path: "/a.txt", old_string: "x", new_string: "y" }).title).toBe(
      "Edit `/a.txt`",
    );
    expect(face("Grep", { pattern: "x+", path: "src" }).title).toBe("grep `src` `x+`");
    expect(face("WebFetch", { url: "https://example.com" }).title).toBe("Fetch https://example.com");
    expect(face("WebSearch", { query: "weather" }).title).toBe('"weather"');
    expect(face("Task", { description: "Look around" }).title).toBe("Look around");
    expect(face("ExitPlanMode").title).toBe("Ready to code?");
    const emitted = ofKind(updatesOf(project(callOf("ExitPlanMode", { plan: "x" }))), "tool_call_update");
    expect(emitted.at(-1)?.title).toBe("Exited Plan Mode");
  });

  it("names the line of a read if the agent gave one (EV-42)", () => {
    expect(face("Read", { file_path: "/a.txt", offset: 5 })).toMatchObject({
      locations: [{ path: "/a.txt", line: 5 }],
    });
  });

  it("shows a MultiEdit edit by edit", () => {
    const edits = [
      { old_string: "a", new_string: "b" },
      { old_string: "c", new_string: "d" },
    ];
    expect(face("MultiEdit", { file_path: "/a.txt", edits })).toMatchObject({
      content: [
        { type: "diff", path: "/a.txt", oldText: "a", newText: "b" },
        { type: "diff", path: "/a.txt", oldText: "c", newText: "d" },
      ],
    });
  });
});

describe("browser-use (EV-40, EV-44)", () => {
  it.each(["browser_task", "monitor_task"])("%s is known by its title, and its kind is other", (tool) => {
    const call = face(`mcp__browser-use__${tool}`, { task: "look" });
    expect(call).toMatchObject({ title: `browser-use: ${tool}`, kind: "other" });
    expect(isBrowserUseTool(call.title)).toBe(true);
    expect(isBrowserUseTool("docs: search")).toBe(false);
    expect(isBrowserUseTool()).toBe(false);
  });

  it("answers with a JSON string in the text of the update", () => {
    const output = JSON.stringify({
      live_url: "https://live/1",
      screenshot_url: "https://shot/1",
      task_id: "t",
    });
    const updates = updatesOf(project(callOf("mcp__browser-use__browser_task", {}, { output })));
    const [shown] = ofKind(updates, "tool_call_update").at(-1)?.content ?? [];
    if (shown?.type !== "content" || shown.content.type !== "text") throw new Error("no text");
    expect(extractBrowserUseUrls(shown.content.text)).toEqual({
      liveUrl: "https://live/1",
      screenshotUrl: "https://shot/1",
    });
  });

  it("is read from broken JSON, and is the first one of the text", () => {
    expect(
      extractBrowserUseUrls('{"live_url": "https://live/2", "screenshot_url":"https://shot/2", …'),
    ).toEqual({
      liveUrl: "https://live/2",
      screenshotUrl: "https://shot/2",
    });
    const steps = [
      { step_number: 1, screenshot_url: "https://shot/first" },
      { step_number: 2, screenshot_url: "https://shot/last" },
    ];
    expect(extractBrowserUseUrls(JSON.stringify({ steps }))).toEqual({ screenshotUrl: "https://shot/first" });
    expect(extractBrowserUseUrls("no JSON at all")).toEqual({});
  });
});

describe("events that no recording has", () => {
  it("a result without a known call is emitted (weakness 6, pattern 3)", () => {
    const [, , started, completed] = callOf("Bash", { command: "x" }, { output: "late" });
    if (!started || !completed) throw new Error("no result");
    const updates = updatesOf(project([started, completed]));
    expect(ofKind(updates, "tool_call")).toEqual([]);
    expect(ofKind(updates, "tool_call_update").at(-1)).toMatchObject({
      toolCallId: "call_Bash",
      status: "completed",
    });
  });

  it("images, with their bytes or by their path (EV-33)", () => {
    expect(shown(image("data:image/jpeg;base64,aGk="))).toEqual({
      sessionUpdate: "agent_message_chunk",
      content: { type: "image", data: "aGk=", mimeType: "image/jpeg" },
    });
    expect(shown(image("/home/user/a.png", "image/png"))).toMatchObject({
      content: { uri: "/home/user/a.png" },
    });
  });

  it("every lifecycle reason comes from one event, with its states (EV-28, EV-30)", () => {
    const fact = { sandbox_id: "sbx_1", provider: "local" };
    const emitted = project(
      (
        [
          ["sandbox.boot", fact],
          ["sandbox.ready", fact],
          ["turn.started", turn()],
          ["turn.ended", end("completed")],
          ["turn.started", turn()],
          ["turn.ended", end("failed")],
          ["turn.started", turn()],
          ["turn.ended", end("interrupted")],
          ["turn.started", turn(true)],
          ["turn.ended", end("completed")],
          ["turn.started", turn(true)],
          ["turn.ended", end("failed")],
          ["command.started", command()],
          ["command.ended", over("completed")],
          ["command.started", command()],
          ["command.ended", over("failed")],
          ["command.started", command()],
          ["command.ended", over("interrupted")],
          ["command.started", command(true)],
          ["command.ended", over("completed")],
          ["command.started", command(true)],
          ["command.ended", over("failed")],
          ["sandbox.paused", fact],
          ["sandbox.resumed", fact],
          ["sandbox.connected", fact],
          ["sandbox.killed", fact],
          ["session.ended", { reason: "terminated", terminated_by: "daemon" }],
          ["sandbox.error", fact],
        ] as const
      ).map(([type, data]) => event({ type, data })),
    );
    const states = emitted.flatMap((part) =>
      part.type === "lifecycle" ? [`${part.event.reason} ${part.event.sandbox} ${part.event.agent}`] : [],
    );
    expect(states).toEqual([
      "sandbox_boot booting idle",
      "sandbox_ready ready idle",
      "run_start running running",
      "run_complete ready idle",
      "run_start running running",
      "run_failed ready error",
      "run_start running running",
      "run_interrupted ready interrupted",
      "run_start running running",
      "run_background_complete ready idle",
      "run_start running running",
      "run_background_failed ready error",
      "command_start running running",
      "command_complete ready idle",
      "command_start running running",
      "command_failed ready error",
      "command_start running running",
      "command_interrupted ready interrupted",
      "command_start running running",
      "command_background_complete ready idle",
      "command_start running running",
      "command_background_failed ready error",
      "sandbox_pause paused error",
      "sandbox_resume ready error",
      "sandbox_connected ready idle",
      "sandbox_killed stopped idle",
      "sandbox_error error error",
    ]);
    expect(new Set(reasonsOf(emitted)).size).toBe(19);
  });

  it("frames have their event name, and a view limits them to one type", () => {
    const stored: StoredEventText[] = [
      event({ type: "turn.started", data: { turn_id: "t", input_ids: [] } }),
      ...callOf("Bash", { command: "x" }),
    ].map((each) => ({ sequence: each.sequence, type: each.type, body: JSON.stringify(each) }));
    const frames = (only?: "content" | "lifecycle"): string[] => {
      let state = content.initial(only === undefined ? {} : { only });
      return stored.flatMap((each) => {
        const projected = content.project(state, each);
        state = projected.state;
        return projected.frames.map((frame) => frame.event ?? "");
      });
    };
    expect(frames()).toEqual(["lifecycle", "content", "content", "content"]);
    expect(frames("content")).toEqual(["content", "content", "content"]);
    expect(frames("lifecycle")).toEqual(["lifecycle"]);
  });
});
