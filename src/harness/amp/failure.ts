import type { EventData, EventError } from "../../contract/index.ts";

export interface Failure {
  readonly error: EventError;
  readonly stopReason: EventData<"turn.ended">["stop_reason"];
}

/** Amp tells its errors in words; these are the words that say what a later message can mend. */
const KINDS: readonly (readonly [RegExp, code: string, Failure["stopReason"]])[] = [
  [
    /no api key|\b40[13]\b|unauthori[sz]ed|forbidden|invalid (api )?(key|token)|not logged in|amp login/i,
    "unauthorized",
    "model_error",
  ],
  [/insufficient|out of credit|credits? (balance|limit)|billing|payment|\b402\b/i, "billing", "model_error"],
  [/\b429\b|rate.?limit|too many requests/i, "rate_limited", "retries_exhausted"],
  [/\b529\b|overloaded/i, "overloaded", "retries_exhausted"],
  [
    /couldn't connect|connection|network|econn\w+|enotfound|etimedout|fetch failed|socket|timed out/i,
    "network",
    "retries_exhausted",
  ],
  [
    /context (window|length|limit)|prompt is too long|too many tokens|token limit/i,
    "context_length",
    "end_turn",
  ],
  [/\b5\d\d\b|server error|bad gateway|service unavailable/i, "server_error", "retries_exhausted"],
  [/\b400\b|invalid request|bad request/i, "invalid_request", "end_turn"],
];

export function toFailure(message: string): Failure {
  const [, code, stopReason] = KINDS.find(([words]) => words.test(message)) ?? [
    undefined,
    "internal",
    "end_turn" as const,
  ];
  return { error: { code, message }, stopReason };
}
