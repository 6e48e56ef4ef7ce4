import { asFields, isText, parseLogin, pick, tokenExpiry, WORTHLESS } from "../login.ts";
import type { LentLogin } from "../port.ts";

/** `.codex/auth.json`: a key, or a login with ChatGPT. Codex reads no login that lacks a refresh token, whatever that is. */
export function lendLogin(content: string): LentLogin | undefined {
  const auth = parseLogin(content);
  const key = auth?.["OPENAI_API_KEY"];
  if (isText(key)) return { content: JSON.stringify({ OPENAI_API_KEY: key }) };
  const tokens = asFields(auth?.["tokens"]);
  if (auth === undefined || tokens === undefined || !isText(tokens["access_token"])) return undefined;
  const lent = {
    ...pick(auth, ["auth_mode", "last_refresh"]),
    OPENAI_API_KEY: null,
    tokens: { ...pick(tokens, ["id_token", "access_token", "account_id"]), refresh_token: WORTHLESS },
  };
  return { content: JSON.stringify(lent), expiresAt: tokenExpiry(tokens["access_token"]) };
}

/** Whether a lent login is a key after all. */
export function isKeyLogin(login: string | undefined): boolean {
  return login !== undefined && isText(parseLogin(login)?.["OPENAI_API_KEY"]);
}
