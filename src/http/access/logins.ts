import type { Context } from "hono";
import type { AppEnv } from "../context.ts";
import { isOwnOrigin } from "../origin.ts";
import { type Access, NOBODY } from "./access.ts";
import type { Tokens } from "./tokens.ts";

/** The header with the second half of a login. A cookie also reaches programs on other ports of this host; this does not. */
export const PROOF_HEADER = "sluice-page";

/** The access of the page's login; undefined without one, or where the request is not one of our own page's calls. */
export async function openLogin(c: Context<AppEnv>, tokens: Tokens | undefined): Promise<Access | undefined> {
  const proof = c.req.header(PROOF_HEADER);
  const cookie = readCookie(c);
  if (!tokens || proof === undefined || cookie === undefined || !isOwnCall(c)) return undefined;
  return tokens.openLogin(cookie, proof);
}

/**
 * Whether a browser says that our own page made this call. A navigation, a frame or an image is none: what they show
 * would run with the rights of the page.
 */
export function isOwnCall(c: Context<AppEnv>): boolean {
  const site = c.req.header("sec-fetch-site");
  if (site === undefined) return isOwnOrigin(c);
  const target = c.req.header("sec-fetch-dest") ?? "empty";
  return site === "same-origin" && target === "empty";
}

/** Cookies have no port, so each server of a host needs a name of its own. */
function cookieName(c: Context<AppEnv>): string {
  const port = /:(\d+)$/.exec(c.req.header("host") ?? "")?.[1] ?? "";
  return `sluice${port && `_${port}`}`;
}

export function readCookie(c: Context<AppEnv>): string | undefined {
  const name = cookieName(c);
  for (const pair of (c.req.header("cookie") ?? "").split(";")) {
    const [key = "", value = ""] = pair.trim().split("=", 2);
    if (key === name && value !== "") return value;
  }
  return undefined;
}

/** The cookie of a login; without a value it is removed. */
export function toCookie(c: Context<AppEnv>, value: string, seconds: number): string {
  const secure = (c.req.header("origin") ?? "").startsWith("https:") ? "; Secure" : "";
  return `${cookieName(c)}=${value}; HttpOnly; SameSite=Strict; Path=/; Max-Age=${seconds}${secure}`;
}

const CLOSED: ReadonlySet<string> = new Set(["/ui/code", "/ui/me", "/ui/logout"]);

/** The page's own files hold no secret, and a code has to be redeemed by somebody without a token. */
export function admitPage(c: Context<AppEnv>): Access | undefined {
  return CLOSED.has(c.req.path) ? undefined : NOBODY;
}
