import { createHash, timingSafeEqual } from "node:crypto";
import type { Context, MiddlewareHandler } from "hono";
import { SluiceError } from "../contract/index.ts";
import { isAnthropic } from "./anthropic/path.ts";
import type { AppEnv } from "./env.ts";

/** Without the token there is nothing but these: a probe has none, and the page says only what this is. */
const OPEN: ReadonlySet<string> = new Set(["/healthz", "/v1/health", "/"]);

/** Whose shelf the server's own token opens. */
export const DEFAULT_OWNER = "default";

export interface Keys {
  /** Opens everything; `false` where everybody may. */
  readonly token: string | false;
  /** Further keys of the Anthropic dialect, each with the owner whose shelf alone it opens. */
  readonly workspaces?: Readonly<Record<string, string>>;
  /** Who else may come in without it, by something else that a dialect gave out. */
  readonly admits?: (c: Context<AppEnv>) => boolean;
}

/** A header is the only place for a token: a URL ends up in histories and logs. */
export function requireToken({ token, workspaces = {}, admits }: Keys): MiddlewareHandler<AppEnv> {
  const expected = token === false ? undefined : digest(token);
  const shelves = Object.entries(workspaces).map(([key, owner]) => ({ key: digest(key), owner }));
  return async (c, next) => {
    const given = givenTokens(c);
    const isGiven = (key: Buffer): boolean => given.some((text) => timingSafeEqual(digest(text), key));
    const shelf = isAnthropic(c.req.path) ? shelves.find(({ key }) => isGiven(key)) : undefined;
    c.set("owner", shelf?.owner ?? DEFAULT_OWNER);
    if (OPEN.has(c.req.path) || !expected || shelf || isGiven(expected) || admits?.(c)) return next();
    const what = given.length === 0 ? "The token is missing" : "The token is wrong";
    const or = isAnthropic(c.req.path) ? ' or "X-Api-Key: <token>"' : "";
    throw new SluiceError("token_invalid", `${what}. Send the header "Authorization: Bearer <token>"${or}.`);
  };
}

function givenTokens(c: Context<AppEnv>): string[] {
  const [, bearer] = /^Bearer +(\S+) *$/i.exec(c.req.header("authorization") ?? "") ?? [];
  const key = isAnthropic(c.req.path) ? c.req.header("x-api-key")?.trim() : undefined;
  return [bearer, key].filter((text) => text !== undefined && text !== "") as string[];
}

// Digests have one length, which timingSafeEqual needs, and tell nothing of the token's own.
function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
