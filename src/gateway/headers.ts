import type { IncomingMessage } from "node:http";
import type { ModelRoute } from "../contract/process.ts";
import type { RateLimit } from "./record.ts";
import { defined } from "../contract/own-keys.ts";

export type Headers = Readonly<Record<string, readonly string[]>>;

/** Headers about one connection. They are not passed on. */
export const HOP_BY_HOP: readonly string[] = [
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "http2-settings",
  "expect",
  "host",
];

/** Headers that carry a credential. The gateway sets its own. */
const CREDENTIALS = [
  "authorization",
  "x-api-key",
  "x-goog-api-key",
  "api-key",
  "cookie",
  "x-amz-date",
  "x-amz-security-token",
  "x-amz-content-sha256",
] as const;

/** Headers by which some servers read another method, path or host than the request's, or charge another project. */
const REROUTING =
  /^(?:x-http-method(?:-override)?|x-method-override|x-(?:original|rewrite)-ur[il]|x-forwarded-.*|forwarded|x-real-ip|via|x-goog-user-project)$/;

/** The agent's headers for the provider. A whole answer is asked for without compression, so that it can be read. */
export function toRequestHeaders(request: IncomingMessage): Headers {
  const dropped = new Set<string>([...HOP_BY_HOP, ...CREDENTIALS, "content-length", "accept-encoding"]);
  const kept = Object.entries(keep(request, dropped)).filter(([name]) => !REROUTING.test(name));
  return { ...Object.fromEntries(kept), "accept-encoding": ["identity"] };
}

/** The headers of a provider's answer. Its cookies are not for the agent. */
export function fromProvider(answer: IncomingMessage): Headers {
  return keep(answer, new Set<string>([...HOP_BY_HOP, "set-cookie", "alt-svc"]));
}

function keep(message: IncomingMessage, dropped: ReadonlySet<string>): Headers {
  const named = new Set(
    (message.headers.connection ?? "").split(",").map((name) => name.trim().toLowerCase()),
  );
  const entries = Object.entries(message.headersDistinct).flatMap(([name, values]): [string, string[]][] =>
    values === undefined || dropped.has(name) || (named.has(name) && !name.startsWith("content-"))
      ? []
      : [[name, values]],
  );
  return Object.fromEntries(entries);
}

export function toAnswerHeaders(headers: Headers): Record<string, string[]> {
  return Object.fromEntries(Object.entries(headers).map(([name, values]) => [name, [...values]]));
}

/** The credentials that a request shows. A CLI that sends none has the token in its path, below one of `routes`. */
export function credentialsOf(
  { headers, url = "" }: IncomingMessage,
  routes: readonly ModelRoute[] = [],
): string[] {
  const bearer = /^bearer +(\S+)$/i.exec(headers.authorization ?? "")?.[1];
  const query = url.includes("?") ? new URLSearchParams(url.slice(url.indexOf("?") + 1)).get("key") : null;
  const [, route, segment] = /^\/([^/?]+)\/([^/?]+)\//.exec(url) ?? [];
  const inPath = routes.some(({ id, tokenInPath }) => tokenInPath && id === route) ? segment : undefined;
  const given = [bearer, headers["x-api-key"], headers["x-goog-api-key"], headers["api-key"], query, inPath];
  return given.filter((value): value is string => typeof value === "string");
}

/** Each provider has its own headers; a reset is a time, a number of seconds, or a duration such as `1m3s`. */
export function readRate(headers: Headers, now: number): RateLimit | undefined {
  const remaining =
    headers["anthropic-ratelimit-requests-remaining"] ?? headers["x-ratelimit-remaining-requests"];
  const reset =
    headers["retry-after"] ??
    headers["anthropic-ratelimit-requests-reset"] ??
    headers["x-ratelimit-reset-requests"];
  const count = Number(remaining?.[0] ?? Number.NaN);
  const rate = defined({
    remaining: Number.isSafeInteger(count) && count >= 0 ? count : undefined,
    reset: believable(toTime(reset?.[0], now), now),
  });
  return Object.keys(rate).length === 0 ? undefined : rate;
}

/** No limit lasts longer than a year. A date beyond that is nonsense, and may be beyond every calendar. */
const LONGEST_MS = 366 * 24 * 3_600_000;

function believable(time: number | undefined, now: number): number | undefined {
  return time !== undefined && Math.abs(time - now) <= LONGEST_MS ? time : undefined;
}

function toTime(text: string | undefined, now: number): number | undefined {
  if (text === undefined || text === "" || text.length > 64) return undefined;
  if (/^\d+(?:\.\d+)?$/.test(text)) return Math.round(now + Number(text) * 1_000);
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)];
  if (parts.length > 0 && parts.map(([whole]) => whole).join("") === text) {
    return Math.round(
      now + parts.reduce((sum, [, amount, unit]) => sum + Number(amount) * (UNITS[unit ?? ""] ?? 0), 0),
    );
  }
  const time = Date.parse(text);
  return Number.isNaN(time) ? undefined : time;
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
