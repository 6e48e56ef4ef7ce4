import { hostOf } from "../launch/hosts.ts";
import { asFields, isText, parseLogin } from "../launch/login.ts";
import type { LentLogin } from "../port.ts";

const KEY_SCOPE = "xai::api_key";
const OWN_SCOPE = "https://auth.x.ai::";

/** `.grok/auth.json`: logins by scope. Only xAI's own, without the refresh token, which Grok does not require. */
export function lendLogin(content: string): LentLogin | undefined {
  const scopes = Object.entries(parseLogin(content) ?? {});
  const [scope, value] =
    scopes.find(([name]) => name === KEY_SCOPE) ?? scopes.find(([name]) => name.startsWith(OWN_SCOPE)) ?? [];
  const login = asFields(value);
  if (scope === undefined || login === undefined || !isText(login["key"])) return undefined;
  const { refresh_token: _kept, ...lent } = login;
  const expiresAt = isText(login["expires_at"]) ? Date.parse(login["expires_at"]) : Number.NaN;
  return {
    content: JSON.stringify({ [scope]: lent }),
    expiresAt: Number.isNaN(expiresAt) ? undefined : expiresAt,
  };
}

/** A key is for the API, a login for the CLI's proxy. */
export function modelHosts(base: string | undefined, key: string | undefined): string[] {
  if (base !== undefined) return hostOf(base);
  return key === undefined ? ["cli-chat-proxy.grok.com"] : ["api.x.ai"];
}
