import { asFields, isText, parseLogin, pick } from "../login.ts";
import type { LentLogin } from "../port.ts";

/** What the CLI reads of its login. A refresh token is not among it, nor the tokens of the user's MCP servers beside it. */
const FIELDS = ["accessToken", "expiresAt", "scopes", "subscriptionType", "rateLimitTier", "clientId"];

/** `.claude/.credentials.json`: the CLI works with an access token alone until that has expired. */
export function lendLogin(content: string): LentLogin | undefined {
  const login = asFields(parseLogin(content)?.["claudeAiOauth"]);
  if (login === undefined || !isText(login["accessToken"])) return undefined;
  const { expiresAt } = login;
  return {
    content: JSON.stringify({ claudeAiOauth: pick(login, FIELDS) }),
    expiresAt: typeof expiresAt === "number" ? expiresAt : undefined,
  };
}
