import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { decodeEvents } from "../../../src/cli/decode/decodeEvents.ts";
import {
  ndjson,
  type NdjsonState,
  type NdjsonView,
  parseLastEventId,
  parseLine,
} from "../../../src/dialects/ndjson/index.ts";
import type { Frame } from "../../../src/dialects/port.ts";
import type { StoredEventText } from "../../../src/dialects/stored.ts";
import { findHarness } from "../../../src/harness/index.ts";
import { expectTurn } from "./turnLaws.ts";

const RECORDINGS = resolve(import.meta.dirname, "../../harness/recordings");
const AGENTS = ["claude", "codex", "gemini", "grok", "opencode", "amp"];

interface Told {
  readonly event: StoredEventText;
  readonly before: NdjsonState;
  readonly frames: readonly Frame[];
}

function tell(events: readonly StoredEventText[], view: NdjsonView = {}): Told[] {
  let state = ndjson.initial(view);
  return events.map((event) => {
    const before = state;
    const projected = ndjson.project(state, event);
    state = projected.state;
    return { event, before, frames: projected.frames };
  });
}

const textsOf = (told: readonly Told[]): string[] =>
  told.flatMap(({ frames }) => frames.map(({ data }) => data));

describe.each(AGENTS)("the lines of %s", (agent) => {
  const folder = join(RECORDINGS, agent);
  const names = readdirSync(folder).filter((name) => name.endsWith(".jsonl"));

  it.each(names)("%s", (name) => {
    const recording = readFileSync(join(folder, name), "utf8");
    const events = [...decodeEvents(findHarness(agent), recording, "s")];
    const turns = events
      .filter(({ type }) => type === "turn.started")
      .map(({ body }) => (JSON.parse(body) as { turn_id: string }).turn_id);
    const told = tell(events);
    const texts = textsOf(told);
    const perTurn = turns.map((turn) => textsOf(tell(events, { turn })));
    for (const lines of perTurn) expectTurn(lines.map(parseLine));
    // ND-32, ND-33: one turn after the other is the whole, and a second look gives the same.
    expect(perTurn.flat()).toEqual(texts);
    expect(textsOf(tell(events))).toEqual(texts);
    expect(texts.every((text) => !text.includes("\n"))).toBe(true);
    expectShortMemory(told);
  });
});

/** Whoever joins in the middle of a turn needs to know that turn alone. */
function expectShortMemory(told: readonly Told[]): void {
  let state: NdjsonState | undefined;
  for (const { event, before } of told) {
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

  it("is the lines without the logs, and done behind them", () => {
    const lines = textsOf(tell(events, { turn })).filter((text) => parseLine(text).type !== "log");
    expect(textsOf(tell(events, { turn, form: "sse" }))).toEqual([...lines, '{"type":"done"}']);
  });

  it("goes on behind every id that it gave", () => {
    const told = tell(events, { turn, form: "sse" }).flatMap(({ event, frames }) =>
      frames.map((frame) => ({ id: String(frame.id ?? event.sequence), data: frame.data })),
    );
    expect(new Set(told.map(({ id }) => id)).size).toBe(told.length);
    for (const [index, { id }] of told.entries()) {
      const { after, seen } = parseLastEventId(id);
      const view: NdjsonView = { turn, form: "sse", ...(seen && { seen }) };
      const rest = tell(events, view).filter(({ event }) => event.sequence > after);
      expect(textsOf(rest)).toEqual(told.slice(index + 1).map(({ data }) => data));
    }
  });

  it.each([["x"], ["1.x"], ["-1"], ["0.1"], ["1.2.3"]])("knows that %s is no id of its own", (id) => {
    expect(() => parseLastEventId(id)).toThrow(/Last-Event-ID/);
  });
});
