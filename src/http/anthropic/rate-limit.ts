import type { MiddlewareHandler } from "hono";
import { SluiceError } from "../../contract/index.ts";
import type { AppEnv } from "../env.ts";
import { isCallback } from "./callback-signature.ts";

export interface RateLimit {
  readonly perMinute: number;
  /** How many may come at once; a minute's worth unless said. */
  readonly burst?: number;
}

/** A bucket of tokens per owner, filled evenly; whoever finds it empty is told when to come again. */
export function limitRate(
  { perMinute, burst = perMinute }: RateLimit,
  now = Date.now,
): MiddlewareHandler<AppEnv> {
  const msPerToken = 60_000 / perMinute;
  const buckets = new Map<string, { tokens: number; at: number }>();
  return async (c, next) => {
    // Whoever has no key must not be able to use up the share of those who have.
    const owner = isCallback(c) ? "callbacks" : c.get("owner");
    const time = now();
    const bucket = buckets.get(owner) ?? { tokens: burst, at: time };
    buckets.set(owner, bucket);
    bucket.tokens = Math.min(burst, bucket.tokens + Math.max(0, time - bucket.at) / msPerToken);
    bucket.at = time;
    if (bucket.tokens < 1) {
      const retryAfterMs = Math.ceil((1 - bucket.tokens) * msPerToken);
      const detail = `More than ${perMinute} requests in a minute. Wait ${Math.max(1, Math.ceil(retryAfterMs / 1000))} s.`;
      throw new SluiceError("rate_limited", detail, { retryAfterMs });
    }
    bucket.tokens -= 1;
    return next();
  };
}
