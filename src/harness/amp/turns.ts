import type { EventData, Usage } from "../../contract/index.ts";
import { type Failure, stopReasonOf } from "../failure.ts";
import { defined, type Fields, isRecord } from "../fields.ts";
import { AFTER_TURN, type Reading } from "./state.ts";

const STOPS: Readonly<Record<string, EventData<"turn.ended">["stop_reason"]>> = {
  end_turn: "end_turn",
  stop_sequence: "end_turn",
  max_tokens: "max_tokens",
  refusal: "refusal",
};

/**
 * Ends the turn at the model's last message. The `result` comes too late for that: one version of Amp sends it only
 * after stdin is closed, another one after each turn.
 */
export function endByStop(reading: Reading, reason: unknown): void {
  const { settled, steering } = reading.state;
  const stop = typeof reason === "string" && Object.hasOwn(STOPS, reason) ? STOPS[reason] : undefined;
  if (stop === undefined || settled || steering > 0) return;
  reading.scribe.endTurn({ status: "completed", stop_reason: stop });
  reading.change({ ...AFTER_TURN, settled: true, owed: true });
}

/** Reads `result`, the last line of a run. It ends the turn, unless the model's last message has ended it. */
export function endByResult(reading: Reading, value: Fields): void {
  const { state, scribe } = reading;
  const failure = failureOf(value);
  if (state.settled || (state.owed && !state.heard)) {
    if (failure) reportFailure(reading, failure);
    return reading.change({ owed: false });
  }
  reportDenials(reading, value["permission_denials"]);
  reportUsage(reading, value["usage"]);
  if (failure) return failTurn(reading, failure);
  scribe.endTurn({ status: "completed", stop_reason: "end_turn" });
  reading.change({ ...AFTER_TURN, settled: true });
}

export function failTurn(reading: Reading, failure: Failure): void {
  reportFailure(reading, failure);
  if (reading.state.settled) return;
  const { error, stopReason } = failure;
  reading.scribe.endTurn({ status: "failed", stop_reason: stopReason, error });
  reading.change({ ...AFTER_TURN, settled: true });
}

function reportFailure({ scribe }: Reading, { error }: Failure): void {
  scribe.error(error);
}

function failureOf(value: Fields): Failure | undefined {
  const { subtype, is_error: isError, error, result } = value;
  if (subtype === "error_max_turns") {
    const message = typeof error === "string" && error !== "" ? error : "Amp reached its limit of turns";
    return { error: { code: "max_turns", message }, stopReason: "max_turns" };
  }
  if (isError !== true && (subtype === "success" || subtype === undefined)) return undefined;
  const said = [error, result].find((words) => typeof words === "string" && words !== "");
  return toFailure(typeof said === "string" ? said : `Amp failed: ${String(subtype)}`);
}

/** Calls that Amp refused by its own rules. */
function reportDenials({ scribe }: Reading, denials: unknown): void {
  if (!Array.isArray(denials) || denials.length === 0) return;
  const names = denials.map((denial) => (typeof denial === "string" ? denial : JSON.stringify(denial)));
  scribe.status("permission denied", { detail: names.join(", ") });
}

function reportUsage({ state, scribe }: Reading, native: unknown): void {
  const usage = state.counted ? undefined : toUsage(native);
  if (!usage) return;
  scribe.startModel("result");
  scribe.endModel("result", { usage });
}

/** Amp's token counts in our fields, which separate cached input. */
export function toUsage(native: unknown): Usage | undefined {
  if (!isRecord(native)) return undefined;
  const read = countOf(native["cache_read_input_tokens"]);
  const written = countOf(native["cache_creation_input_tokens"]);
  const all = countOf(native["input_tokens"]);
  const output = countOf(native["output_tokens"]);
  if (all === undefined && output === undefined) return undefined;
  const cached = (read ?? 0) + (written ?? 0);
  // Amp's examples count cached tokens as input too. Anthropic's counts do not: there the input may be smaller than
  // the cached part.
  const input = all !== undefined && all >= cached ? all - cached : all;
  return defined({
    input_tokens: input,
    output_tokens: output,
    cache_read_tokens: read,
    cache_write_tokens: written,
  });
}

function countOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** Patterns of Amp's error texts. Amp has no error codes. */
const KINDS: readonly (readonly [RegExp, code: string])[] = [
  [
    /no api key|\b40[13]\b|unauthori[sz]ed|forbidden|invalid (api )?(key|token)|not logged in|amp login/i,
    "unauthorized",
  ],
  [/insufficient|out of credit|credits? (balance|limit)|billing|payment|\b402\b/i, "billing"],
  [/\b429\b|rate.?limit|too many requests/i, "rate_limited"],
  [/\b(529|503)\b|overloaded|service unavailable/i, "overloaded"],
  [
    /couldn't connect|connection|network|econn\w+|enotfound|etimedout|fetch failed|socket|timed out/i,
    "network",
  ],
  [/context (window|length|limit)|prompt is too long|too many tokens|token limit/i, "context_length"],
  [/\b5\d\d\b|server error|bad gateway/i, "server_error"],
  [/\b400\b|invalid request|bad request/i, "invalid_request"],
];

export function toFailure(message: string): Failure {
  const code = KINDS.find(([words]) => words.test(message))?.[1] ?? "internal";
  return { error: { code, message }, stopReason: stopReasonOf(code) };
}
