import type { SpoolLine } from "../../contract/index.ts";
import { speakAcp } from "../acp/harness.ts";
import type { AcpState } from "../acp/state.ts";
import type { Decoded, HarnessCommand } from "../port.ts";
import { recordedContext } from "../recording.ts";
import type { OpencodeState } from "./state.ts";

const speech = speakAcp({});

/** A recording of `opencode acp` is any ACP agent's: JSON-RPC from its first line on. */
export function speaksAcp({ acp, session, run }: OpencodeState, line: SpoolLine): boolean {
  if (acp !== undefined) return true;
  return session === undefined && run === undefined && line.text.startsWith('{"jsonrpc"');
}

export function decodeAcpForm(state: OpencodeState, line: SpoolLine): Decoded<OpencodeState> {
  const { state: acp, ...rest } = speech.decode(acpOf(state), line);
  return { ...rest, state: { ...state, acp } };
}

export function overhearAcpForm(state: OpencodeState, line: SpoolLine): HarnessCommand | undefined {
  return speech.overhear?.(acpOf(state), line);
}

function acpOf({ acp, transcript }: OpencodeState): AcpState {
  return acp ?? speech.initial({ ...recordedContext("opencode"), idPrefix: transcript.prefix });
}
