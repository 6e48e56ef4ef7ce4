import type { SessionSpec } from "../../contract/index.ts";
import { hostOf } from "../launch/hosts.ts";
import { isText, parseLogin } from "../launch/login.ts";
import type { LentLogin } from "../port.ts";

const OWN_URL = "https://ampcode.com/";

/** `.local/share/amp/secrets.json`: keys by server. The session gets the key of its own server. */
export function lendLogin(content: string, { env }: SessionSpec): LentLogin | undefined {
  const url = (env?.["AMP_URL"] ?? OWN_URL).replace(/\/*$/, "");
  const keys = Object.entries(parseLogin(content) ?? {});
  const found = keys.find(([name, key]) => isText(key) && name.replace(/\/*$/, "") === `apiKey@${url}`);
  return found && { content: JSON.stringify(Object.fromEntries([found])) };
}

export function hostsOf(url: string | undefined): string[] {
  return url === undefined ? ["ampcode.com", "*.ampcode.com"] : hostOf(url);
}
