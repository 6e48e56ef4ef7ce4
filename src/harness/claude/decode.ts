import type { SpoolLine } from "../../contract/index.ts";
import type { Decoded } from "../port.ts";
import { Scribe } from "../scribe.ts";
import { without } from "../transcript.ts";
import { parseObject } from "../unparsed.ts";
import { readCancel, readControl, readControlResponse } from "./controls.ts";
import { readAssistant } from "./assistant.ts";
import { type Fields, toText } from "./fields.ts";
import { hear } from "./hear.ts";
import { NOISE } from "./noise.ts";
import type { Reader } from "./reading.ts";
import { readResult } from "./result.ts";
import type { Ask, ClaudeState } from "./state.ts";
import { readStreamEvent } from "./stream.ts";
import { readSystem } from "./system.ts";
import { readUser } from "./user.ts";

/** One line of Claude Code's stream-json as facts. Never throws, whatever the bytes. */
export function decode(state: ClaudeState, line: SpoolLine): Decoded<ClaudeState> {
  if (line.dir === "in") return { state: hear(state, line), facts: [] };
  if (line.dir === "exit") return { state: { ...state, isOver: true }, facts: [] };
  if (line.dir !== "out") return { state, facts: [] };
  const scribe = new Scribe<Ask>(state.transcript);
  const replies: string[] = [];
  const value = parseObject(line);
  const next = typeof value === "string" ? value : read(state, value, { scribe, replies });
  if (typeof next === "string") scribe.unparsed(line, next);
  return {
    state: { ...(typeof next === "string" ? state : next), transcript: scribe.transcript },
    facts: scribe.facts,
    ...(replies.length === 0 ? {} : { replies }),
  };
}

const read: Reader = (state, line, reading) => {
  const type = toText(line["type"]);
  if (NOISE.has(type)) return state;
  const reader = Object.hasOwn(READERS, type) ? READERS[type] : undefined;
  if (!reader) return `unknown type ${JSON.stringify(line["type"]) ?? "none"}`.slice(0, 80);
  const begun = BEGINS.has(type) && !state.isBegun ? { ...state, isBegun: true } : state;
  return reader(settled(begun, line, reading), line, reading);
};

/** What an agent says only when it works on a prompt; that it began is said by `system` `init`. */
const BEGINS: ReadonlySet<string> = new Set(["stream_event", "assistant", "control_request"]);

const READERS: Readonly<Record<string, Reader>> = {
  stream_event: readStreamEvent,
  assistant: readAssistant,
  user: readUser,
  result: readResult,
  system: readSystem,
  control_request: readControl,
  control_cancel_request: readCancel,
  control_response: readControlResponse,
  command_lifecycle(state, line) {
    const next = { ...state, tellsQueue: true };
    if (line["state"] === "queued") return next;
    return { ...next, waiting: without(state.waiting, toText(line["command_uuid"])) };
  },
  tool_progress(state, line, { scribe }) {
    scribe.startResult(toText(line["tool_use_id"]));
    return state;
  },
};

/** A compaction is told with its summary, which stands in the line behind it; where it does not, without. */
function settled(state: ClaudeState, line: Fields, { scribe }: Parameters<Reader>[2]): ClaudeState {
  const { compaction, ...rest } = state;
  if (!compaction || line["isSynthetic"] === true) return state;
  scribe.compacted(compaction);
  return rest;
}
