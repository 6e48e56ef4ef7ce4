import type { SessionSpec } from "../../contract/index.ts";
import { asFields, isText, parseLogin } from "../login.ts";
import type { LentLogin } from "../port.ts";
import { chooseModel, COMPATIBLE } from "./model.ts";
import { isKnownProvider } from "./providers.ts";

/**
 * `.local/share/opencode/auth.json`: logins by provider. The one of the model's provider, else the first that we know.
 * OpenCode's own plugins use logins by OAuth; they are off here, so only keys work.
 */
export function lendLogin(content: string, spec: SessionSpec): LentLogin | undefined {
  const logins = parseLogin(content) ?? {};
  const wanted = chooseModel(spec)?.providerID;
  const provider = wanted === COMPATIBLE ? "openai" : (wanted ?? Object.keys(logins).find(isKnownProvider));
  const login =
    provider !== undefined && Object.hasOwn(logins, provider) ? asFields(logins[provider]) : undefined;
  if (provider === undefined || login === undefined) return undefined;
  if (login["type"] !== "api" || !isText(login["key"])) {
    return {
      refusal: `OpenCode's login for ${provider} works only with a refresh token; set a key of that provider instead`,
    };
  }
  return { content: JSON.stringify({ [provider]: { type: "api", key: login["key"] } }) };
}

/** The provider whose login was lent. */
export function loginProvider(login: string | undefined): string | undefined {
  return login === undefined ? undefined : Object.keys(parseLogin(login) ?? {})[0];
}
