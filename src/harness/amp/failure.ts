import { type Failure, stopReasonOf } from "../failure.ts";

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
