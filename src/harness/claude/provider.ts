import { pick } from "../fields.ts";
import { asFields, hostOf, isText, parseLogin, requireLabel, vertexHost } from "../launch/provider.ts";
import type { LentLogin } from "../port.ts";

type Env = Readonly<Record<string, string>>;

/** The cloud that serves the model; undefined for Anthropic itself. */
export function cloudOf(env: Env): "bedrock" | "vertex" | "foundry" | undefined {
  if (isOn(env["CLAUDE_CODE_USE_BEDROCK"])) return "bedrock";
  if (isOn(env["CLAUDE_CODE_USE_VERTEX"])) return "vertex";
  return isOn(env["CLAUDE_CODE_USE_FOUNDRY"]) ? "foundry" : undefined;
}

/** The model's hosts, one by one: a cloud's whole domain includes other tenants' storage. */
export function toModelHosts(env: Env): string[] {
  const cloud = cloudOf(env);
  if (cloud === "bedrock") return toBedrock(env);
  if (cloud === "vertex") return toVertex(env);
  if (cloud === "foundry") return toFoundry(env);
  const { ANTHROPIC_BASE_URL: base } = env;
  return base === undefined ? ["api.anthropic.com"] : hostOf(base);
}

/** The hosts of the runtime and of the list of models. */
function toBedrock(env: Env): string[] {
  const { ANTHROPIC_BEDROCK_BASE_URL: base } = env;
  if (base !== undefined) return hostOf(base);
  const small = env["ANTHROPIC_SMALL_FAST_MODEL_AWS_REGION"];
  const regions = [
    requireLabel("AWS_REGION", env["AWS_REGION"] ?? env["AWS_DEFAULT_REGION"] ?? "us-east-1"),
    ...(small === undefined ? [] : [requireLabel("ANTHROPIC_SMALL_FAST_MODEL_AWS_REGION", small)]),
  ];
  // STS issues the credentials of a role.
  const needsRole = env["AWS_ROLE_ARN"] !== undefined || env["AWS_WEB_IDENTITY_TOKEN_FILE"] !== undefined;
  const services = ["bedrock-runtime", "bedrock", ...(needsRole ? ["sts"] : [])];
  return regions.flatMap((region) => services.map((service) => `${service}.${region}.amazonaws.com`));
}

function toVertex(env: Env): string[] {
  const { ANTHROPIC_VERTEX_BASE_URL: base, CLOUD_ML_REGION: region = "us-east5" } = env;
  const signIn = "oauth2.googleapis.com";
  if (base !== undefined) return [...hostOf(base), signIn];
  const others = Object.entries(env).filter(([name]) => name.startsWith("VERTEX_REGION_"));
  const hosts = [["CLOUD_ML_REGION", region] as const, ...others].map(([name, value]) =>
    vertexHost(name, value),
  );
  return [...new Set([...hosts, signIn])];
}

function toFoundry({
  ANTHROPIC_FOUNDRY_BASE_URL: base,
  ANTHROPIC_FOUNDRY_RESOURCE: resource,
}: Env): string[] {
  if (base !== undefined) return hostOf(base);
  if (resource === undefined) return [];
  return [`${requireLabel("ANTHROPIC_FOUNDRY_RESOURCE", resource)}.services.ai.azure.com`];
}

/** The CLI's own reading of a switch. */
function isOn(value: string | undefined): boolean {
  return value !== undefined && ["1", "true", "yes", "on"].includes(value.trim().toLowerCase());
}

/** The fields of a login that the CLI reads. The refresh token and the tokens of MCP servers are not among them. */
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
