import { createHash, timingSafeEqual } from "node:crypto";
import type { Context, MiddlewareHandler } from "hono";
import { SluiceError } from "../contract/index.ts";
import { isAnthropic } from "./anthropic/path.ts";
import { SYSTEM_OWNER } from "./anthropic/signing-key.ts";
import type { AppEnv } from "./env.ts";

/** Without the token there is nothing but these: a probe has none, and the page says only what this is. */
const OPEN: ReadonlySet<string> = new Set(["/healthz", "/v1/health", "/"]);

/** Whose shelf the server's own token opens. */
export const DEFAULT_OWNER = "default";

/** A tenant holds a key of the keys file: what it names is reached over the internet alone. */
export function isTenant(owner: string): boolean {
  return owner !== DEFAULT_OWNER;
}

export interface Keys {
  /** Opens everything; `false` where everybody may. */
  readonly token: string | false;
  /** Further keys of the Anthropic dialect, each with the owner whose shelf alone it opens. */
  readonly workspaces?: Readonly<Record<string, string>>;
  /** Who else may come in without it, by something else that a dialect gave out. */
  readonly admits?: (c: Context<AppEnv>) => boolean;
}

/** Whose names no workspace may have: with one of them a tenant would be the server's owner, or the server itself. */
export const RESERVED_OWNERS: ReadonlySet<string> = new Set([DEFAULT_OWNER, SYSTEM_OWNER]);

/** Keys of workspaces are a boundary only where nobody comes in without one. */
export function assertKeys({
  token,
  workspaces = {},
}: {
  token: Keys["token"];
  workspaces?: Keys["workspaces"] | undefined;
}): void {
  const entries = Object.entries(workspaces);
  if (entries.length > 0 && token === false)
    throw new TypeError("Workspaces need a token: without one everybody is the server's owner.");
  for (const [key, owner] of entries) {
    if (RESERVED_OWNERS.has(owner)) throw new TypeError(`No workspace may be called ${owner}.`);
    if (key === token) throw new TypeError(`The key of the workspace ${owner} is the server's own token.`);
  }
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

export function givenTokens(c: Context<AppEnv>): string[] {
  const [, bearer] = /^Bearer +(\S+) *$/i.exec(c.req.header("authorization") ?? "") ?? [];
  const key = isAnthropic(c.req.path) ? c.req.header("x-api-key")?.trim() : undefined;
  return [bearer, key].filter((text) => text !== undefined && text !== "") as string[];
}

// Digests have one length, which timingSafeEqual needs, and tell nothing of the token's own.
function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
