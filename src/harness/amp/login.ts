import type { SessionSpec } from "../../contract/index.ts";
import { isText, parseLogin } from "../login.ts";
import type { LentLogin } from "../port.ts";

const OWN_URL = "https://ampcode.com/";

/** `.local/share/amp/secrets.json`: keys by the server that they are for. Only the one of the session's server. */
export function lendLogin(content: string, { env }: SessionSpec): LentLogin | undefined {
  const url = (env?.["AMP_URL"] ?? OWN_URL).replace(/\/*$/, "");
  const keys = Object.entries(parseLogin(content) ?? {});
  const found = keys.find(([name, key]) => isText(key) && name.replace(/\/*$/, "") === `apiKey@${url}`);
  return found && { content: JSON.stringify(Object.fromEntries([found])) };
}
