import { createHash, timingSafeEqual } from "node:crypto";
import type { Context, MiddlewareHandler } from "hono";
import { SluiceError } from "../contract/index.ts";
import { type Access, DEFAULT_TENANT, NOBODY, OPERATOR, RESERVED_TENANTS } from "./access/access.ts";
import { openLogin } from "./access/logins.ts";
import type { Tokens } from "./access/tokens.ts";
import type { AppEnv } from "./context.ts";

export { DEFAULT_TENANT, isWorkspace, RESERVED_TENANTS, SYSTEM_TENANT } from "./access/access.ts";

export interface Keys {
  /** Opens everything; `false` admits every client. */
  readonly token: string | false;
  /** Further keys, each with the tenant whose sessions and resources it opens. */
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
export function requireToken({ token, workspaces = {} }: Keys, tokens?: Tokens): MiddlewareHandler<AppEnv> {
  const expected = token === false ? undefined : digest(token);
  const known = Object.entries(workspaces).map(([key, tenant]) => ({ key: digest(key), tenant }));
  const identify = async (c: Context<AppEnv>): Promise<Access | undefined> => {
    if (!expected) return OPERATOR;
    const given = givenTokens(c);
    const isGiven = (key: Buffer): boolean => given.some((text) => timingSafeEqual(digest(text), key));
    const workspace = known.find(({ key }) => isGiven(key));
    if (workspace) return { tenant: workspace.tenant, scope: "admin" };
    if (isGiven(expected)) return OPERATOR;
    for (const text of given) {
      const access = await tokens?.open(text);
      if (access) return access;
    }
    const login = given.length === 0 ? await openLogin(c, tokens) : undefined;
    return login ?? c.get("dialect")?.admits?.(c);
  };
  return async (c, next) => {
    const access = await identify(c);
    c.set("access", access ?? NOBODY);
    c.set("tenant", access?.tenant ?? DEFAULT_TENANT);
    if (access) return next();
    const what =
      givenTokens(c).length === 0 ? "The token is missing" : "The token is wrong, revoked or expired";
    const or = c.get("dialect")?.takesApiKeys ? ' or "X-Api-Key: <token>"' : "";
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
