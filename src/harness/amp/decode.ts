import type { SpoolLine } from "../../contract/index.ts";
import type { Decoded } from "../port.ts";
import { isRecord } from "../rpc.ts";
import { Scribe } from "../scribe.ts";
import { parseObject } from "../unparsed.ts";
import { decodeAsk, withdrawAsk } from "./asks.ts";
import { endByResult, failTurn } from "./ends.ts";
import { toFailure } from "./failure.ts";
import { decodeAssistant, decodeUser } from "./messages.ts";
import { overhear } from "./overhear.ts";
import { type AmpAsk, type AmpState, atTurnsEdge } from "./state.ts";

/** One line of Amp, or to it, as facts. Never throws, whatever the bytes. */
export function decode(state: AmpState, line: SpoolLine): Decoded<AmpState> {
  const scribe = new Scribe<AmpAsk>(state.transcript);
  const next = see(state, line, scribe);
  return { state: { ...next, transcript: scribe.transcript }, facts: scribe.facts };
}

function see(state: AmpState, line: SpoolLine, scribe: Scribe<AmpAsk>): AmpState {
  switch (line.dir) {
    case "out":
      return seeOut(state, line, scribe);
    case "in":
    case "meta":
      return seeTold(state, line, scribe);
    case "err":
      return seeTrouble(state, line, scribe);
    case "exit":
      return seeExit(state, scribe);
    default:
      return state;
  }
}

function seeOut(state: AmpState, line: SpoolLine, scribe: Scribe<AmpAsk>): AmpState {
  if (line.text.trim() === "" && !line.damage) return state;
  const value = parseObject(line);
  if (typeof value === "string") return seePlainText(state, line, { scribe, why: value });
  const { type, session_id: thread } = value;
  if (typeof thread === "string" && thread !== "") {
    scribe.add({ type: "session.started", native_session_id: thread, data: {} });
  }
  switch (type) {
    case "system":
      if (value["subtype"] !== "init")
        scribe.unparsed(line, `unknown system message ${shown(value["subtype"])}`);
      return state;
    case "assistant":
      return decodeAssistant(state, line, { value, scribe });
    case "user":
      return decodeUser(state, line, { value, scribe });
    case "result":
      return endByResult(state, value, scribe);
    case "permission.asked":
      return decodeAsk(state, line, { value, scribe });
    case "permission.withdrawn":
      withdrawAsk(value, scribe);
      return state;
    default:
      scribe.unparsed(line, `unknown type ${shown(type)}`);
      return state;
  }
}

/** Without a key it asks for a login in plain text, and would wait for it for ever. */
function seePlainText(
  state: AmpState,
  line: SpoolLine,
  { scribe, why }: { scribe: Scribe<AmpAsk>; why: string },
): AmpState {
  if (line.text.startsWith("No API key found")) {
    const message = "Amp has no API key: set AMP_API_KEY, or log in with `amp login`";
    const failed = failTurn(state, toFailure(message), scribe);
    return { ...failed, loggingIn: true };
  }
  // What follows is its login page's address, with a token in it.
  if (!state.loggingIn) scribe.unparsed(line, why);
  return state;
}

/** What was sent: a prompt begins a turn, an answer needs no translation any more. */
function seeTold(state: AmpState, line: SpoolLine, scribe: Scribe<AmpAsk>): AmpState {
  const command = overhear(state, line);
  if (command?.type === "prompt") return { ...state, ...atTurnsEdge, owed: state.owed, settled: false };
  if (command?.type === "steer") return { ...state, steering: state.steering + 1 };
  if (command?.type === "permission") scribe.forgetAsk(command.id);
  return state;
}

function seeTrouble(state: AmpState, { text }: SpoolLine, scribe: Scribe<AmpAsk>): AmpState {
  const message = /^Error: (.+)$/.exec(text)?.[1];
  if (message === undefined || state.settled || state.trouble !== undefined) return state;
  const { code, message: words } = toFailure(message).error;
  scribe.add({ type: "error", data: { code, message: words } });
  return { ...state, trouble: message };
}

/** Only a recording holds stderr; a live process's end is told by the engine, with its stderr. */
function seeExit(state: AmpState, scribe: Scribe<AmpAsk>): AmpState {
  if (state.settled || state.trouble === undefined) return state;
  const { error, stopReason } = toFailure(state.trouble);
  scribe.endTurn({ status: "failed", stop_reason: stopReason, error });
  return { ...state, ...atTurnsEdge, settled: true };
}

function shown(value: unknown): string {
  const text = JSON.stringify(isRecord(value) ? "an object" : value) ?? "none";
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}
