import type { SpoolLine } from "../../contract/index.ts";
import { isRecord, type Params, type RpcId, toRpcMessage } from "../rpc.ts";
import { emptyTranscript, without, own } from "../transcript.ts";
import { parseObject } from "../unparsed.ts";
import type { CodexState } from "./state.ts";

/** What was told to Codex, as far as it changes how Codex is to be understood. */
export function noteSent(state: CodexState, line: SpoolLine): CodexState {
  const value = parseObject(line);
  const message = typeof value === "string" ? undefined : toRpcMessage(value);
  if (message === undefined || message.kind === "notification") return state;
  if (message.kind !== "request") return noteAnswer(state, message.id);
  const { id, method, params } = message;
  const noted: CodexState = {
    ...state,
    driven: state.driven || id === "initialize",
    requests: { ...state.requests, [String(id)]: method },
  };
  const [purpose, reply, ask] = String(id).split(":");
  const decided = purpose === "plan" ? noteDecision(noted, ask ?? "", reply !== "reject") : noted;
  if (method !== "turn/start" && method !== "thread/compact/start") return decided;
  const compacting = method === "thread/compact/start";
  return { ...noteTurn(decided, purpose ?? "", params), compacting };
}

/** An answer that was sent needs no translation any more. */
function noteAnswer(state: CodexState, id: RpcId): CodexState {
  const found = Object.entries(state.transcript.asks).find(([, ask]) => ask.kind !== "plan" && ask.id === id);
  return found ? forget(state, found[0]) : state;
}

function noteDecision(state: CodexState, id: string, approved: boolean): CodexState {
  const ask = own(state.transcript.asks, id);
  return ask?.kind === "plan" ? { ...forget(state, id), decided: { call: ask.call, approved } } : state;
}

/** Something is said to Codex; it goes on with the turn that runs where it is a retry or follows from a plan. */
function noteTurn(state: CodexState, purpose: string, params: Params): CodexState {
  const { plan: _, ...next } = state;
  const mode = isRecord(params["collaborationMode"]) ? params["collaborationMode"]["mode"] : undefined;
  const opening = mode === undefined ? state.opening : { ...state.opening, plans: mode === "plan" };
  // A new prompt behind one whose end was decided elsewhere: what it left open is closed.
  const isLeft = state.halted && purpose !== "retry";
  const { prefix, count } = state.transcript;
  const transcript = isLeft ? { ...emptyTranscript<never>(prefix), count } : state.transcript;
  return { ...next, opening, transcript, prompted: true, halted: false };
}

function forget(state: CodexState, id: string): CodexState {
  const { transcript } = state;
  return { ...state, transcript: { ...transcript, asks: without(transcript.asks, id) } };
}
