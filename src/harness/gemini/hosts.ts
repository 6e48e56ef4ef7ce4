import { hostOf, vertexHost } from "../hosts.ts";

type Env = Readonly<Record<string, string>>;

/** Where the model is, host by host: under Google's domain lies everybody's storage. */
export function modelHosts(env: Env): string[] {
  const auth = authOf(env);
  if (auth === "vertex-ai") return toVertex(env);
  if (auth === "gemini-api-key") {
    const { GOOGLE_GEMINI_BASE_URL: base } = env;
    return base === undefined ? ["generativelanguage.googleapis.com"] : hostOf(base);
  }
  const { CODE_ASSIST_ENDPOINT: endpoint } = env;
  // The second one says whether an access token is still good, and is asked at every start.
  return [
    ...(endpoint === undefined ? ["cloudcode-pa.googleapis.com"] : hostOf(endpoint)),
    "oauth2.googleapis.com",
  ];
}

export function authOf(env: Env): "vertex-ai" | "gemini-api-key" | "oauth-personal" {
  if (usesVertex(env) || env["GOOGLE_GENAI_USE_VERTEXAI"] === "true") return "vertex-ai";
  return env["GEMINI_API_KEY"] === undefined ? "oauth-personal" : "gemini-api-key";
}

/** A key of Google Cloud is one for Vertex. */
export function usesVertex(env: Env): boolean {
  return env["GEMINI_API_KEY"] === undefined && env["GOOGLE_API_KEY"] !== undefined;
}

function toVertex(env: Env): string[] {
  const { GOOGLE_VERTEX_BASE_URL: base, GOOGLE_CLOUD_LOCATION: location, GOOGLE_API_KEY: key } = env;
  // Whoever has no key signs in with an account of a service.
  const signIn = key === undefined ? ["oauth2.googleapis.com"] : [];
  if (base !== undefined) return [...hostOf(base), ...signIn];
  const place = location === undefined ? "global" : location;
  return [...new Set(["aiplatform.googleapis.com", vertexHost("GOOGLE_CLOUD_LOCATION", place), ...signIn])];
}
