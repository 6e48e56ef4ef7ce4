import { pick } from "../fields.ts";
import { asFields, hostOf, isText, parseLogin, requireLabel, vertexHost } from "../launch/provider.ts";
import type { SessionSpec } from "../../contract/index.ts";
import type { Lead, LentLogin } from "../port.ts";

type Env = Readonly<Record<string, string>>;

/** The cloud that serves the model; undefined for Anthropic itself. */
export function cloudOf(env: Env): "bedrock" | "vertex" | "foundry" | undefined {
  if (isOn(env["CLAUDE_CODE_USE_BEDROCK"])) return "bedrock";
  if (isOn(env["CLAUDE_CODE_USE_VERTEX"])) return "vertex";
  return isOn(env["CLAUDE_CODE_USE_FOUNDRY"]) ? "foundry" : undefined;
}

/** The keys of clouds. A session brings them itself. */
export function sessionKeys({ env = {} }: SessionSpec): readonly string[] {
  const cloud = cloudOf(env);
  return cloud === undefined ? [] : CLOUD_KEYS[cloud];
}

const FOUNDRY_KEY = "ANTHROPIC_FOUNDRY_API_KEY";
const BEDROCK_KEY = "AWS_BEARER_TOKEN_BEDROCK";
const CLOUD_KEYS = {
  foundry: [FOUNDRY_KEY],
  bedrock: [BEDROCK_KEY, "AWS_SECRET_ACCESS_KEY"],
  vertex: ["GOOGLE_SERVICE_ACCOUNT_KEY"],
} as const;

/** Anthropic's API or a cloud with a key. A plan's token is for the CLI alone. */
export function lead({ env = {} }: SessionSpec, variable: string): Lead | "plan_login" | undefined {
  if (variable === "CLAUDE_CODE_OAUTH_TOKEN") return "plan_login";
  const cloud = cloudOf(env);
  if (cloud !== undefined) {
    const isKey = (CLOUD_KEYS[cloud] as readonly string[]).includes(variable);
    return isKey ? LEADS[cloud](env, variable) : undefined;
  }
  const isKey = variable === "ANTHROPIC_API_KEY";
  return {
    route: {
      id: "anthropic",
      provider: "anthropic",
      upstream: env["ANTHROPIC_BASE_URL"] ?? "https://api.anthropic.com",
      auth: isKey ? { header: "x-api-key" } : { header: "authorization", scheme: "Bearer" },
    },
    variables: (url) => ({ ANTHROPIC_BASE_URL: url }),
  };
}

/** The CLI sends no credential to the gateway, so the token is in the path. */
function leadToBedrock(env: Env, variable: string): Lead {
  const base = env["ANTHROPIC_BEDROCK_BASE_URL"];
  const awsRegion = requireLabel("AWS_REGION", env["AWS_REGION"] ?? env["AWS_DEFAULT_REGION"] ?? "us-east-1");
  const isBearer = variable === BEDROCK_KEY;
  return {
    route: {
      id: "bedrock",
      provider: "bedrock",
      upstream: base ?? `https://bedrock-runtime.${awsRegion}.amazonaws.com`,
      ...(base === undefined ? { lists: `https://bedrock.${awsRegion}.amazonaws.com` } : {}),
      auth: isBearer ? { header: "authorization", scheme: "Bearer" } : { awsRegion },
      tokenInPath: true,
    },
    isBinary: true,
    ...(isBearer ? {} : { companions: ["AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"] }),
    variables: (url) => ({ ANTHROPIC_BEDROCK_BASE_URL: url, CLAUDE_CODE_SKIP_BEDROCK_AUTH: "1" }),
  };
}

function leadToVertex(env: Env): Lead {
  const region = env["CLOUD_ML_REGION"] ?? "us-east5";
  return {
    route: {
      id: "vertex",
      provider: "vertex",
      upstream: env["ANTHROPIC_VERTEX_BASE_URL"] ?? `https://${vertexHost("CLOUD_ML_REGION", region)}/v1`,
      auth: { googleTokenUrl: env["GOOGLE_TOKEN_URL"] ?? "https://oauth2.googleapis.com/token" },
      tokenInPath: true,
    },
    variables: (url) => ({ ANTHROPIC_VERTEX_BASE_URL: url, CLAUDE_CODE_SKIP_VERTEX_AUTH: "1" }),
  };
}

const LEADS = { bedrock: leadToBedrock, vertex: leadToVertex, foundry: leadToFoundry };

function leadToFoundry(env: Env): Lead | undefined {
  const [host] = toFoundry(env);
  const base = env["ANTHROPIC_FOUNDRY_BASE_URL"];
  if (base === undefined && host === undefined) return undefined;
  return {
    route: {
      id: "foundry",
      provider: "foundry",
      upstream: base ?? `https://${host}/anthropic`,
      auth: { header: "x-api-key" },
    },
    // The CLI refuses an address together with the name of a resource.
    variables: (url) => ({ ANTHROPIC_FOUNDRY_BASE_URL: url, ANTHROPIC_FOUNDRY_RESOURCE: "" }),
  };
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
  if (base !== undefined)
    return [...hostOf(base), ...(isOn(env["CLAUDE_CODE_SKIP_VERTEX_AUTH"]) ? [] : [signIn])];
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

/** Whether a switch is on, by the CLI's own rules. */
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
