import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { decodeEvents } from "../../../src/cli/decode-events.ts";
import { type AgUiView, parseFrameId } from "../../../src/dialects/ag-ui/index.ts";
import type { StoredEventText } from "../../../src/dialects/port.ts";
import { findHarness } from "../../../src/harness/registry.ts";
import { customs, expectTellable, tellAll, typesOf } from "./oracle.ts";

const ROOT = resolve(import.meta.dirname, "../../harness/recordings");
const AGENTS: Readonly<Record<string, string>> = {
  amp: "amp",
  claude: "claude",
  "claude-2.1.197": "claude",
  "claude-agent-acp": "acp",
  codex: "codex",
  "codex-acp": "acp",
  gemini: "gemini",
  grok: "grok",
  opencode: "opencode",
  "opencode-acp": "acp",
};
const VIEWS: readonly AgUiView[] = [
  {},
  { protocol: "1.0" },
  { inputs: true },
  { fileEvents: false, bridged: true },
];

describe.each(Object.entries(AGENTS))("the recordings of %s (AG-01, AG-28)", (folder, agent) => {
  const files = readdirSync(join(ROOT, folder)).filter((name) => name.endsWith(".jsonl"));

  it.each(files)("%s passes both clients' verifiers in every view", async (name) => {
    const events = decode(agent, join(ROOT, folder, name));
    for (const view of VIEWS) {
      const { told } = tellAll(view, events);
      await expectTellable(told, view);
      const runs = told.filter(({ type }) => type === "RUN_STARTED").length;
      const ends = told.filter(({ type }) => type === "RUN_FINISHED" || type === "RUN_ERROR").length;
      expect(ends, "every run has one end").toBe(runs);
      for (const { length } of runsOf(typesOf(told))) expect(length).toBeGreaterThanOrEqual(2);
    }
  });

  it.each(files)("%s resumes behind every frame's id (TS-35)", (name) => {
    const events = decode(agent, join(ROOT, folder, name));
    const { frames } = tellAll({}, events);
    expect(new Set(frames.map(({ id }) => id)).size).toBe(frames.length);
    for (const [at, { id }] of frames.entries()) {
      const place = parseFrameId(id ?? "");
      if (!place) throw new Error(`no place: ${id}`);
      const { sequence, index } = place;
      const behind = index === undefined ? {} : { behind: { sequence, index } };
      const after = index === undefined ? sequence : sequence - 1;
      // The state is folded from the start, as on a server; only frames behind the cursor count.
      const again = tellAll(behind, events).frames.filter(
        (frame) => (parseFrameId(frame.id ?? "")?.sequence ?? 0) > after,
      );
      expect(again).toEqual(frames.slice(at + 1));
    }
  });
});

describe("the recordings", () => {
  it.each([
    ["claude", "text.jsonl", "claude-code.session-id"],
    ["codex", "app_text.jsonl", "codex.session-id"],
    ["opencode", "serve_text.jsonl", "opencode.session-id"],
    ["grok", "acp_text.jsonl", "grok-build.session-id"],
  ])("%s is called by its harness name once in every run (TS-12)", (agent, file, name) => {
    const path = join(ROOT, agent, file);
    const { told } = tellAll({}, decode(agent, path));
    const runs = told.filter(({ type }) => type === "RUN_STARTED").length;
    const named = customs(told, name);
    expect(named).toHaveLength(runs);
    expect(named[0]?.["value"]).toEqual({ sessionId: expect.stringMatching(/./) as string });
    const content = told.findIndex(({ type, role }) => type === "TEXT_MESSAGE_START" && role === "assistant");
    expect(content).toBeGreaterThan(told.indexOf(named[0] as never));
  });

  it("attribute a sub-agent's work to it (AG-11)", () => {
    const { told } = tellAll({}, decode("claude", join(ROOT, "claude", "subagent.jsonl")));
    const started = told.find(({ type }) => type === "SUBAGENT_STARTED");
    expect(started).toMatchObject({
      name: "general-purpose",
      parentToolCallId: expect.any(String) as string,
    });
    expect(typesOf(told)).toContain("SUBAGENT_FINISHED");
    const own = told.filter((event) => event["subagentRunId"] === started?.["subagentRunId"]);
    expect(own.length).toBeGreaterThan(4);
  });

  it("have reasoning exactly where the model had it (TS-09, TS-10)", () => {
    const thinking = typesOf(tellAll({}, decode("claude", join(ROOT, "claude", "thinking.jsonl"))).told);
    const at = thinking.indexOf("REASONING_START");
    expect(thinking.slice(at, at + 3)).toEqual([
      "REASONING_START",
      "REASONING_MESSAGE_START",
      "REASONING_MESSAGE_CONTENT",
    ]);
    const plain = typesOf(tellAll({}, decode("claude", join(ROOT, "claude", "text.jsonl"))).told);
    expect(plain.filter((type) => type.startsWith("REASONING"))).toEqual([]);
  });
});

const decoded = new Map<string, StoredEventText[]>();
function decode(agent: string, path: string): StoredEventText[] {
  const known = decoded.get(path) ?? [
    ...decodeEvents(findHarness(agent), readFileSync(path, "utf8"), "thread-1"),
  ];
  decoded.set(path, known);
  return known;
}

function runsOf(types: readonly string[]): string[][] {
  const runs: string[][] = [];
  for (const type of types) {
    if (type === "RUN_STARTED") runs.push([]);
    runs.at(-1)?.push(type);
  }
  return runs;
}
