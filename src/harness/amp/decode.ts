import type { SpoolLine } from "../../contract/index.ts";
import { isRecord, parseObject } from "../fields.ts";
import type { Decoded } from "../port.ts";
import { LineReading } from "../scribe.ts";
import { noteSent } from "./encode.ts";
import { readAsk, readAssistant, readUser, withdrawAsk } from "./messages.ts";
import { AFTER_TURN, type AmpState, type Reading } from "./state.ts";
import { endByResult, failTurn, toFailure } from "./turns.ts";

/** One line of Amp, or to it, as facts. Never throws, whatever the bytes. */
export function decode(state: AmpState, line: SpoolLine): Decoded<AmpState> {
  const reading: Reading = new LineReading(state);
  switch (line.dir) {
    case "out": {
      const problem = readOutput(reading, line);
      if (problem !== undefined) reading.scribe.unparsed(line, problem);
      break;
    }
    case "in":
    case "meta":
      return { state: noteSent(state, line), facts: [] };
    case "err":
      readStderr(reading, line.text);
      break;
    case "exit":
      readExit(reading);
  }
  return reading.decoded();
}

function readOutput(reading: Reading, line: SpoolLine): string | undefined {
  if (line.text.trim() === "" && !line.damage) return undefined;
  const value = parseObject(line);
  if (typeof value === "string") return readPlainText(reading, line.text, value);
  const { type, session_id: thread } = value;
  if (typeof thread === "string" && thread !== "") {
    reading.scribe.session(thread);
  }
  switch (type) {
    case "system":
      return value["subtype"] === "init" ? undefined : `unknown system message ${shown(value["subtype"])}`;
    case "assistant":
      return readAssistant(reading, line, value);
    case "user":
      return readUser(reading, line, value);
    case "result":
      return void endByResult(reading, value);
    case "permission.asked":
      return readAsk(reading, value);
    case "permission.withdrawn":
      return void withdrawAsk(reading, value);
    default:
      return `unknown type ${shown(type)}`;
  }
}

/** Without a key Amp asks for a login in plain text, and would wait for it for ever. */
function readPlainText(reading: Reading, text: string, problem: string): string | undefined {
  if (text.startsWith("No API key found")) {
    failTurn(reading, toFailure("Amp has no API key: set AMP_API_KEY, or log in with `amp login`"));
    return void reading.change({ loggingIn: true });
  }
  // The next lines are the address of its login page, with a token in it.
  return reading.state.loggingIn ? undefined : problem;
}

function readStderr(reading: Reading, text: string): void {
  const trouble = /^Error: (.+)$/.exec(text)?.[1];
  if (trouble === undefined || reading.state.settled || reading.state.trouble !== undefined) return;
  reading.scribe.error(toFailure(trouble).error);
  reading.change({ trouble });
}

/**
 * Ends the turn of a recording by its error on stderr. The engine reports the exit and the stderr of a live process.
 */
function readExit(reading: Reading): void {
  const { settled, trouble } = reading.state;
  if (settled || trouble === undefined) return;
  const { error, stopReason } = toFailure(trouble);
  reading.scribe.endTurn({ status: "failed", stop_reason: stopReason, error });
  reading.change({ ...AFTER_TURN, settled: true });
}

function shown(value: unknown): string {
  const text = JSON.stringify(isRecord(value) ? "an object" : value) ?? "none";
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}
