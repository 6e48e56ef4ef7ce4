import { createHash, timingSafeEqual } from "node:crypto";
import type { MiddlewareHandler } from "hono";
import { SluiceError } from "../contract/index.ts";
import type { AppEnv } from "./env.ts";

/** Without the token there is nothing but these: a probe has none, and the page says only what this is. */
const OPEN: ReadonlySet<string> = new Set(["/healthz", "/v1/health", "/"]);

/** The header is the only place for a token: a URL ends up in histories and logs. */
export function requireToken(token: string): MiddlewareHandler<AppEnv> {
  const expected = digest(token);
  return async (c, next) => {
    if (OPEN.has(c.req.path)) return next();
    const [, given] = /^Bearer +(\S+) *$/i.exec(c.req.header("authorization") ?? "") ?? [];
    if (given !== undefined && timingSafeEqual(digest(given), expected)) return next();
    const what = given === undefined ? "The token is missing" : "The token is wrong";
    throw new SluiceError("token_invalid", `${what}. Send the header "Authorization: Bearer <token>".`);
  };
}

// Digests have one length, which timingSafeEqual needs, and tell nothing of the token's own.
function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
