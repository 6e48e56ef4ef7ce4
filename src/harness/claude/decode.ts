import type { SpoolLine } from "../../contract/index.ts";
import { type Fields, parseObject, toText } from "../fields.ts";
import type { Decoded } from "../port.ts";
import { LineReading } from "../scribe.ts";
import { without } from "../transcript.ts";
import { readCancel, readControl, readControlResponse } from "./asks.ts";
import { noteSent } from "./encode.ts";
import { readAssistant, readStreamEvent } from "./messages.ts";
import { type ClaudeState, nextPhase, type Reader, type Reading, restoreState } from "./state.ts";
import { NOISE, readSystem } from "./system.ts";
import { readUser } from "./tools.ts";
import { readResult } from "./turns.ts";

/** One line of Claude Code's stream-json as facts. Never throws, whatever the bytes. */
export function decode(saved: ClaudeState, line: SpoolLine): Decoded<ClaudeState> {
  const state = restoreState(saved);
  if (line.dir === "in") return { state: noteSent(state, line), facts: [] };
  if (line.dir === "exit") return { state: { ...state, isOver: true }, facts: [] };
  if (line.dir !== "out") return { state, facts: [] };
  const reading: Reading = new LineReading(state);
  const value = parseObject(line);
  const problem = typeof value === "string" ? value : read(reading, value);
  if (problem === undefined) return reading.decoded();
  reading.scribe.unparsed(line, problem);
  // Of the state, an unparsed line changes only the transcript.
  return { ...reading.decoded(), state: { ...state, transcript: reading.scribe.transcript } };
}

const read: Reader = (reading, line) => {
  const type = toText(line["type"]);
  if (NOISE.has(type)) return undefined;
  const reader = Object.hasOwn(READERS, type) ? READERS[type] : undefined;
  if (!reader) return `unknown type ${JSON.stringify(line["type"]) ?? "none"}`.slice(0, 80);
  if (WORK.has(type)) reading.change({ phase: nextPhase(reading.state.phase, "begun") });
  reportBareCompaction(reading, line);
  return reader(reading, line);
};

/**
 * Line types that only a working agent prints. `system` `init` is another one, which its own reader handles; the other
 * system lines prove nothing.
 */
const WORK: ReadonlySet<string> = new Set(["stream_event", "assistant", "control_request"]);

const READERS: Readonly<Record<string, Reader>> = {
  stream_event: readStreamEvent,
  assistant: readAssistant,
  user: readUser,
  result: readResult,
  system: readSystem,
  control_request: readControl,
  control_cancel_request: readCancel,
  control_response: readControlResponse,
  command_lifecycle(reading, line) {
    const { waiting } = reading.state;
    const isQueued = line["state"] === "queued";
    reading.change({
      tellsQueue: true,
      waiting: isQueued ? waiting : without(waiting, toText(line["command_uuid"])),
    });
    return undefined;
  },
  tool_progress({ scribe }, line) {
    scribe.startResult(toText(line["tool_use_id"]));
    return undefined;
  },
};

/** Reports a compaction without a summary. If there is a summary, it is the next line, and `readUser` reports both. */
function reportBareCompaction(reading: Reading, line: Fields): void {
  const { compaction } = reading.state;
  if (!compaction || line["isSynthetic"] === true) return;
  reading.scribe.compacted(compaction);
  reading.change({ compaction: undefined });
}
