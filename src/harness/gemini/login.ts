import { isText, parseLogin, pick } from "../login.ts";
import type { LentLogin } from "../port.ts";

/** `.gemini/oauth_creds.json`: Google's client uses an access token alone until that has expired. */
export function lendLogin(content: string): LentLogin | undefined {
  const login = parseLogin(content);
  if (login === undefined || !isText(login["access_token"])) return undefined;
  const { expiry_date: expiresAt } = login;
  return {
    content: JSON.stringify(pick(login, ["access_token", "token_type", "scope", "id_token", "expiry_date"])),
    expiresAt: typeof expiresAt === "number" ? expiresAt : undefined,
  };
}

/** `.gemini/google_accounts.json`: whose login it is. Without it the CLI would ask Google. */
export function lendAccount(content: string): LentLogin | undefined {
  const { active } = parseLogin(content) ?? {};
  return isText(active) ? { content: JSON.stringify({ active, old: [] }) } : undefined;
}
