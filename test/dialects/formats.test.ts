import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeEvents } from "../../src/cli/decode-events.ts";
import { FORMAT_NAMES, type FormatName } from "../../src/contract/index.ts";
import { FORMATS, toNumbered } from "../../src/dialects/formats.ts";
import type { Frame, StoredEventText } from "../../src/dialects/port.ts";
import { findHarness } from "../../src/harness/index.ts";

const RECORDINGS = resolve(import.meta.dirname, "../harness/recordings");
const AGENTS = ["claude", "codex", "opencode", "gemini", "grok", "amp"];
const ALL = AGENTS.flatMap((agent) =>
  readdirSync(join(RECORDINGS, agent))
    .filter((name) => name.endsWith(".jsonl"))
    .map((name) => ({ agent, file: join(RECORDINGS, agent, name) })),
);
const LOGS = ALL.map(({ agent, file }) => ({
  agent,
  events: [...decodeEvents(findHarness(agent), readFileSync(file, "utf8"), "s")],
}));

interface Told {
  readonly id: string;
  readonly text: string;
}

/** The frames of a stream from an id on, as its reader gets them. */
function read(format: FormatName, log: (typeof LOGS)[number], last?: string): Told[] {
  const { dialect, toView } = FORMATS[format];
  const numbered = toNumbered(dialect);
  const [sequence = 0, index] = (last ?? "0").split(":").map(Number);
  const after = index === undefined ? sequence : sequence - 1;
  const seen = index === undefined ? {} : { seen: { sequence, frames: index } };
  const view = { view: toView({ agent: log.agent, universal: { extensions: true } }), ...seen };
  // A projection begins at the start of the turn, as that of the server does.
  const start = startOf(log.events, after, dialect.memory);
  let state = numbered.initial(view);
  return log.events.slice(start).flatMap((event) => {
    const projected = numbered.project(state, event);
    state = projected.state;
    if (event.sequence <= after) return [];
    return projected.frames.map((frame) => toTold(frame, event.sequence));
  });
}

function startOf(events: readonly StoredEventText[], after: number, memory: "none" | "turn"): number {
  if (memory === "none") return after;
  const at = events.slice(0, after).findLastIndex(({ type }) => type === "turn.started");
  return Math.max(0, at);
}

function toTold({ id, event, data }: Frame, sequence: number): Told {
  return { id: id ?? String(sequence), text: `${event ?? ""} ${data}` };
}

describe.each(FORMAT_NAMES)("the format %s", (format) => {
  it("has the frames of its dialect, to the byte, for every recording", () => {
    const { dialect, toView } = FORMATS[format];
    for (const log of LOGS) {
      let state = dialect.initial(toView({ agent: log.agent, universal: { extensions: true } }));
      const own = log.events.flatMap((event) => {
        const projected = dialect.project(state, event);
        state = projected.state;
        return projected.frames.map(({ event, data }) => `${event ?? ""} ${data}`);
      });
      expect(read(format, log).map(({ text }) => text)).toEqual(own);
    }
  });

  it("is the same for a reader that is cut anywhere and resumes", () => {
    fc.assert(
      fc.property(fc.nat({ max: LOGS.length - 1 }), fc.nat(), (which, at) => {
        const log = LOGS[which] as (typeof LOGS)[number];
        const whole = read(format, log);
        const cut = whole.length === 0 ? 0 : at % (whole.length + 1);
        const seen = whole.slice(0, cut);
        expect([...seen, ...read(format, log, seen.at(-1)?.id)]).toEqual(whole);
      }),
      { numRuns: 150 },
    );
  });

  it("gives every frame an id of its own that begins with the sequence", () => {
    for (const log of LOGS) {
      const ids = read(format, log).map(({ id }) => id);
      expect(new Set(ids).size).toBe(ids.length);
      for (const id of ids) expect(id).toMatch(/^\d+(:\d+)?$/);
    }
  });
});
