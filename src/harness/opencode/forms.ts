import type { SpoolLine } from "../../contract/index.ts";
import { speakAcp } from "../acp/harness.ts";
import type { AcpState } from "../acp/state.ts";
import { isRecord } from "../fields.ts";
import type { Decoded, HarnessCommand } from "../port.ts";
import { recordedContext } from "../recording.ts";
import { toCommand } from "./encode.ts";
import { toUsage } from "./messages.ts";
import { reportSession } from "./sessions.ts";
import {
  type NativeError,
  OpencodeReading,
  type OpencodeState,
  type Part,
  type Properties,
} from "./state.ts";
import { readTool } from "./tools.ts";
import { type Ending, endingOf, toNativeError } from "./turns.ts";

/** A line of `opencode run --format json`: one whole part. */
export function readRunLine(
  reading: OpencodeReading,
  line: Properties & { readonly type: string },
): string | undefined {
  const { type, sessionID, part } = line;
  if (reading.state.session === undefined) reading.change({ session: String(sessionID) });
  reportSession(reading);
  if (!reading.state.run) reading.change({ run: {} });
  if (type === "error") {
    const failure = toNativeError(line["error"]);
    return void reading.change({ run: { ...reading.state.run, ...(failure ? { failure } : {}) } });
  }
  if (!isRecord(part) || typeof part["id"] !== "string") return `a line ${type} without a part`;
  return readRunPart(reading, part as Part);
}

function readRunPart(reading: OpencodeReading, part: Part): string | undefined {
  const request = part.messageID;
  switch (part.type) {
    case "step-start":
      return void reading.scribe.startModel(request);
    case "text":
    case "reasoning":
      return void reading.scribe.sayWhole(part.id, String(part["text"] ?? ""), { kind: part.type });
    case "tool":
      return readTool(reading, part, {});
    case "step-finish":
      return void reading.scribe.endModel(request, { usage: toUsage(part) });
    default:
      return undefined;
  }
}

/** The exit of a run ends its one turn. */
export function endRun(state: OpencodeState, { exit }: SpoolLine): Decoded<OpencodeState> {
  const { run } = state;
  if (!run) return { state, facts: [] };
  const reading = new OpencodeReading(state);
  const died: NativeError = {
    name: "UnknownError",
    message: `opencode run ended with code ${exit?.code ?? "unknown"}`,
  };
  const failure = run.failure ?? (exit?.code === 0 ? undefined : died);
  const ending: Ending = failure ? endingOf(failure) : { status: "completed", stop_reason: "end_turn" };
  if (ending.error) reading.scribe.error(ending.error);
  reading.scribe.endTurn(ending);
  reading.change({ run: undefined });
  return reading.decoded();
}

const speech = speakAcp({});

/** Whether the recording is one of `opencode acp`: JSON-RPC from its first line. */
export function isAcpForm({ acp, session, run }: OpencodeState, line: SpoolLine): boolean {
  if (acp !== undefined) return true;
  return session === undefined && run === undefined && line.text.startsWith('{"jsonrpc"');
}

export function decodeAcpForm(state: OpencodeState, line: SpoolLine): Decoded<OpencodeState> {
  const { state: acp, ...rest } = speech.decode(acpOf(state), line);
  return { ...rest, state: { ...state, acp } };
}

/** The command of a line to OpenCode, in any form. */
export function overhear(state: OpencodeState, line: SpoolLine): HarnessCommand | undefined {
  return isAcpForm(state, line) ? speech.overhear?.(acpOf(state), line) : toCommand(state, line);
}

function acpOf({ acp, transcript }: OpencodeState): AcpState {
  return acp ?? speech.initial({ ...recordedContext("opencode"), idPrefix: transcript.prefix });
}
