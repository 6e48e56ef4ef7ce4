import type { SpoolLine } from "../../contract/index.ts";
import type { Decoded, HarnessCommand } from "../port.ts";
import { isRecord } from "../fields.ts";
import { endingOf, toNativeError } from "./failure.ts";
import {
  OpencodeReading,
  type NativeError,
  type OpencodeState,
  type Part,
  type Properties,
} from "./state.ts";
import { toUsage } from "./messages.ts";
import { reportSession } from "./sessions.ts";
import { readTool } from "./tools.ts";
import { speakAcp } from "../acp/harness.ts";
import type { AcpState } from "../acp/state.ts";
import { recordedContext } from "../recording.ts";

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
      reading.scribe.startModel(request);
      return undefined;
    case "text":
    case "reasoning":
      reading.scribe.sayWhole(part.id, String(part["text"] ?? ""), { kind: part.type });
      return undefined;
    case "tool":
      return readTool(reading, part, {});
    case "step-finish":
      reading.scribe.endModel(request, { usage: toUsage(part) });
      return undefined;
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
  const ending = failure
    ? endingOf(failure)
    : { status: "completed" as const, stop_reason: "end_turn" as const };
  if (ending.error)
    reading.scribe.add({ type: "error", data: { code: ending.error.code, message: ending.error.message } });
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

export function toAcpCommand(state: OpencodeState, line: SpoolLine): HarnessCommand | undefined {
  return speech.overhear?.(acpOf(state), line);
}

function acpOf({ acp, transcript }: OpencodeState): AcpState {
  return acp ?? speech.initial({ ...recordedContext("opencode"), idPrefix: transcript.prefix });
}
