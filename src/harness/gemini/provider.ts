import { hostOf, vertexHost } from "../launch/hosts.ts";
import { isText, parseLogin, pick } from "../launch/login.ts";
import type { LentLogin } from "../port.ts";

type Env = Readonly<Record<string, string>>;

/** The model's hosts, one by one: Google's whole domain includes other tenants' storage. */
export function modelHosts(env: Env): string[] {
  const auth = authOf(env);
  if (auth === "vertex-ai") return toVertex(env);
  if (auth === "gemini-api-key") {
    const { GOOGLE_GEMINI_BASE_URL: base } = env;
    return base === undefined ? ["generativelanguage.googleapis.com"] : hostOf(base);
  }
  const { CODE_ASSIST_ENDPOINT: endpoint } = env;
  // The second host validates the access token at every start.
  return [
    ...(endpoint === undefined ? ["cloudcode-pa.googleapis.com"] : hostOf(endpoint)),
    "oauth2.googleapis.com",
  ];
}

export function authOf(env: Env): "vertex-ai" | "gemini-api-key" | "oauth-personal" {
  if (usesVertex(env) || env["GOOGLE_GENAI_USE_VERTEXAI"] === "true") return "vertex-ai";
  return env["GEMINI_API_KEY"] === undefined ? "oauth-personal" : "gemini-api-key";
}

/** A Google Cloud key is for Vertex. */
export function usesVertex(env: Env): boolean {
  return env["GEMINI_API_KEY"] === undefined && env["GOOGLE_API_KEY"] !== undefined;
}

function toVertex(env: Env): string[] {
  const { GOOGLE_VERTEX_BASE_URL: base, GOOGLE_CLOUD_LOCATION: location, GOOGLE_API_KEY: key } = env;
  // Without a key the CLI signs in with a service account.
  const signIn = key === undefined ? ["oauth2.googleapis.com"] : [];
  if (base !== undefined) return [...hostOf(base), ...signIn];
  const region = location ?? "global";
  return [...new Set(["aiplatform.googleapis.com", vertexHost("GOOGLE_CLOUD_LOCATION", region), ...signIn])];
}

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

/** `.gemini/google_accounts.json`: the account of the login. Without it the CLI would ask Google. */
export function lendAccount(content: string): LentLogin | undefined {
  const { active } = parseLogin(content) ?? {};
  return isText(active) ? { content: JSON.stringify({ active, old: [] }) } : undefined;
}
