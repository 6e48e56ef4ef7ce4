import { createHash, timingSafeEqual } from "node:crypto";
import type { Context, MiddlewareHandler } from "hono";
import { SluiceError } from "../contract/index.ts";
import type { AppEnv } from "./context.ts";

/** The tenant of the server's own token. */
export const DEFAULT_TENANT = "default";

/** The tenant of the server's own documents; no key opens them. */
export const SYSTEM_TENANT = "sluice";

/** Names that no workspace may have: they stand for the server's operator and for the server itself. */
export const RESERVED_TENANTS: ReadonlySet<string> = new Set([DEFAULT_TENANT, SYSTEM_TENANT]);

/** A workspace is a tenant of the keys file. For a workspace, the server connects only to public hosts. */
export function isWorkspace(tenant: string): boolean {
  return tenant !== DEFAULT_TENANT;
}

export interface Keys {
  /** Opens everything; `false` admits every client. */
  readonly token: string | false;
  /** Further keys of the Anthropic dialect, each with the tenant whose resources it opens. */
  readonly workspaces?: Readonly<Record<string, string>> | undefined;
}

/** Refuses keys of workspaces that would protect nothing, or that would open more than the workspace. */
export function assertKeys({ token, workspaces = {} }: Keys): void {
  const entries = Object.entries(workspaces);
  if (entries.length > 0 && token === false)
    throw new TypeError("Workspaces need a token: without one, every client has the rights of the operator.");
  for (const [key, tenant] of entries) {
    if (RESERVED_TENANTS.has(tenant)) throw new TypeError(`No workspace may be called ${tenant}.`);
    if (key === token) throw new TypeError(`The key of the workspace ${tenant} is the server's own token.`);
  }
}

/** Reads tokens only from headers: URLs end up in browser histories and logs. */
export function requireToken({ token, workspaces = {} }: Keys): MiddlewareHandler<AppEnv> {
  const expected = token === false ? undefined : digest(token);
  const known = Object.entries(workspaces).map(([key, tenant]) => ({ key: digest(key), tenant }));
  return async (c, next) => {
    const dialect = c.get("dialect");
    const given = givenTokens(c);
    const isGiven = (key: Buffer): boolean => given.some((text) => timingSafeEqual(digest(text), key));
    const workspace = dialect?.takesApiKeys ? known.find(({ key }) => isGiven(key)) : undefined;
    c.set("tenant", workspace?.tenant ?? DEFAULT_TENANT);
    if (!expected || workspace || isGiven(expected) || dialect?.admits?.(c)) return next();
    const what = given.length === 0 ? "The token is missing" : "The token is wrong";
    const or = dialect?.takesApiKeys ? ' or "X-Api-Key: <token>"' : "";
    throw new SluiceError("token_invalid", `${what}. Send the header "Authorization: Bearer <token>"${or}.`);
  };
}

export function givenTokens(c: Context<AppEnv>): string[] {
  const key = c.get("dialect")?.takesApiKeys ? c.req.header("x-api-key")?.trim() : undefined;
  return [bearerOf(c), key].filter((text) => text !== undefined && text !== "") as string[];
}

export function bearerOf(c: Context<AppEnv>): string | undefined {
  return /^Bearer +(\S+) *$/i.exec(c.req.header("authorization") ?? "")?.[1];
}

// `timingSafeEqual` needs texts of one length. All digests have it, and do not reveal the length of the token.
function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
