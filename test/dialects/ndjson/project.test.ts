import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { decodeEvents } from "../../../src/cli/decode-events.ts";
import {
  ndjson,
  type NdjsonState,
  type NdjsonView,
  parseLastEventId,
  parseLine,
} from "../../../src/dialects/ndjson/index.ts";
import type { Frame, StoredEventText } from "../../../src/dialects/port.ts";
import { findHarness } from "../../../src/harness/index.ts";
import { expectTurn } from "./turn-laws.ts";

const RECORDINGS = resolve(import.meta.dirname, "../../harness/recordings");
const AGENTS = ["claude", "codex", "gemini", "grok", "opencode", "amp"];

interface Emitted {
  readonly event: StoredEventText;
  readonly before: NdjsonState;
  readonly frames: readonly Frame[];
}

function project(events: readonly StoredEventText[], view: NdjsonView = {}): Emitted[] {
  let state = ndjson.initial(view);
  return events.map((event) => {
    const before = state;
    const projected = ndjson.project(state, event);
    state = projected.state;
    return { event, before, frames: projected.frames };
  });
}

const textsOf = (emitted: readonly Emitted[]): string[] =>
  emitted.flatMap(({ frames }) => frames.map(({ data }) => data));

describe.each(AGENTS)("the lines of %s", (agent) => {
  const folder = join(RECORDINGS, agent);
  const names = readdirSync(folder).filter((name) => name.endsWith(".jsonl"));

  it.each(names)("%s", (name) => {
    const recording = readFileSync(join(folder, name), "utf8");
    const events = [...decodeEvents(findHarness(agent), recording, "s")];
    const turns = events
      .filter(({ type }) => type === "turn.started")
      .map(({ body }) => (JSON.parse(body) as { turn_id: string }).turn_id);
    const emitted = project(events);
    const texts = textsOf(emitted);
    const perTurn = turns.map((turn) => textsOf(project(events, { turn })));
    for (const lines of perTurn) expectTurn(lines.map(parseLine));
    // ND-32, ND-33: the turns one by one equal the whole, also when read again.
    expect(perTurn.flat()).toEqual(texts);
    expect(textsOf(project(events))).toEqual(texts);
    expect(texts.every((text) => !text.includes("\n"))).toBe(true);
    expectShortMemory(emitted);
  });
});

/** A reader that joins during a turn needs that turn alone. */
function expectShortMemory(emitted: readonly Emitted[]): void {
  let state: NdjsonState | undefined;
  for (const { event, before } of emitted) {
    if (event.type === "turn.started") state = ndjson.initial({});
    else if (state) expect(state).toEqual(before);
    if (state) state = ndjson.project(state, event).state;
  }
}

describe("the form for browsers", () => {
  const recording = readFileSync(join(RECORDINGS, "claude", "parallel_tools.jsonl"), "utf8");
  const events = [...decodeEvents(findHarness("claude"), recording, "s")];
  const turn = (
    JSON.parse(events.find(({ type }) => type === "turn.started")?.body ?? "") as { turn_id: string }
  ).turn_id;

  it("has the lines without logs, and done at the end", () => {
    const lines = textsOf(project(events, { turn })).filter((text) => parseLine(text).type !== "log");
    expect(textsOf(project(events, { turn, form: "sse" }))).toEqual([...lines, '{"type":"done"}']);
  });

  it("resumes behind every id", () => {
    const emitted = project(events, { turn, form: "sse" }).flatMap(({ event, frames }) =>
      frames.map((frame) => ({ id: String(frame.id ?? event.sequence), data: frame.data })),
    );
    expect(new Set(emitted.map(({ id }) => id)).size).toBe(emitted.length);
    for (const [index, { id }] of emitted.entries()) {
      const { after, seen } = parseLastEventId(id);
      const view: NdjsonView = { turn, form: "sse", ...(seen && { seen }) };
      const rest = project(events, view).filter(({ event }) => event.sequence > after);
      expect(textsOf(rest)).toEqual(emitted.slice(index + 1).map(({ data }) => data));
    }
  });

  it.each([["x"], ["1.x"], ["-1"], ["0.1"], ["1.2.3"]])("refuses %s as an id", (id) => {
    expect(() => parseLastEventId(id)).toThrow(/Last-Event-ID/);
  });
});
