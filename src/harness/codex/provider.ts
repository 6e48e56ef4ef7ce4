import type { SessionSpec } from "../../contract/index.ts";
import { hostOf } from "../launch/hosts.ts";
import { asFields, isText, parseLogin, pick, tokenExpiry, NO_REFRESH_TOKEN } from "../launch/login.ts";
import type { LaunchContext, LentLogin } from "../port.ts";
import { KEYS } from "./config.ts";

/**
 * `.codex/auth.json`: a key, or a login with ChatGPT. Codex requires a refresh token in a login, but any value will
 * do.
 */
export function lendLogin(content: string): LentLogin | undefined {
  const auth = parseLogin(content);
  const key = auth?.["OPENAI_API_KEY"];
  if (isText(key)) return { content: JSON.stringify({ OPENAI_API_KEY: key }) };
  const tokens = asFields(auth?.["tokens"]);
  if (auth === undefined || tokens === undefined || !isText(tokens["access_token"])) return undefined;
  const lent = {
    ...pick(auth, ["auth_mode", "last_refresh"]),
    OPENAI_API_KEY: null,
    tokens: { ...pick(tokens, ["id_token", "access_token", "account_id"]), refresh_token: NO_REFRESH_TOKEN },
  };
  return { content: JSON.stringify(lent), expiresAt: tokenExpiry(tokens["access_token"]) };
}

/** Whether the file of a lent login holds a key. */
function isKeyLogin(login: string | undefined): boolean {
  return login !== undefined && isText(parseLogin(login)?.["OPENAI_API_KEY"]);
}

/**
 * A key is for the API, a login for ChatGPT's own host. The agent cannot renew a login, so it needs no host for
 * that.
 */
export function modelHosts({ env, secrets }: SessionSpec, context: LaunchContext): string[] {
  const base = env?.["OPENAI_BASE_URL"];
  if (base !== undefined) return hostOf(base);
  const hasKey = KEYS.some((name) => (context.env?.[name] ?? env?.[name] ?? secrets?.[name]) !== undefined);
  return hasKey || isKeyLogin(context.login) ? ["api.openai.com"] : ["chatgpt.com"];
}
