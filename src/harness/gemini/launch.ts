import { join } from "node:path";
import type { Launch, McpServer, SessionSpec } from "../../contract/index.ts";
import { own } from "../../contract/own-keys.ts";
import { pick } from "../fields.ts";
import { defineCli, nodeOf } from "../launch/cli.ts";
import { skillFiles } from "../launch/files.ts";
import { toMcpServers } from "../launch/mcp.ts";
import { hostOf, isText, mcpHosts, parseLogin, vertexHost } from "../launch/provider.ts";
import type { LaunchContext, Lead, LentLogin } from "../port.ts";
import { PRELUDE, preludeFile } from "./prelude.ts";

export const SKILLS_FOLDER = ".gemini/skills";

const CLI = defineCli("gemini", { title: "Gemini CLI", install: "npm install -g @google/gemini-cli" });
export const { detect } = CLI;

const SYSTEM_PROMPT = ".gemini/system.md";

/** `gemini --acp`, run by our own Node: the CLI's launcher would start a child that outlives it. */
export function launch(spec: SessionSpec, context: LaunchContext): Launch {
  const cli = CLI.require(context);
  const { resume = "", home } = context;
  const env = { ...spec.env, ...context.env };
  return {
    argv: [...programOf(cli.path, context), ...argumentsOf(spec)],
    env: {
      ...env,
      HOME: home,
      GEMINI_CLI_NO_RELAUNCH: "true",
      GEMINI_CLI_TRUST_WORKSPACE: "true",
      ...(usesVertex(env) ? { GOOGLE_GENAI_USE_VERTEXAI: "true" } : {}),
      ...(resume === "" ? {} : { SLUICE_RESUME: resume }),
      ...(spec.systemPrompt === undefined ? {} : { GEMINI_SYSTEM_MD: join(home, SYSTEM_PROMPT) }),
    },
    needs: [...cli.needs, process.execPath],
    hosts: [...modelHosts(env), ...mcpHosts(spec)],
    files: [
      {
        path: ".gemini/settings.json",
        content: JSON.stringify(toSettings(spec, authOf(env)), undefined, 2),
        mode: 0o600,
      },
      preludeFile(),
      ...(spec.systemPrompt === undefined ? [] : [{ path: SYSTEM_PROMPT, content: spec.systemPrompt }]),
      ...(spec.instructions === undefined ? [] : [{ path: ".gemini/GEMINI.md", content: spec.instructions }]),
      ...skillFiles(SKILLS_FOLDER, spec),
    ],
  };
}

/** A build that is no Node program runs without the prelude, and reports less. */
function programOf(path: string, context: LaunchContext): string[] {
  const { home } = context;
  return /\.[cm]?js$/.test(path) ? [nodeOf(context), "--import", join(home, PRELUDE), path] : [path];
}

function argumentsOf(spec: SessionSpec): string[] {
  const mode = spec.agentMode === "plan" ? "plan" : (APPROVAL[spec.permissionMode ?? "default"] ?? "default");
  return ["--acp", "--approval-mode", mode, ...(spec.model === undefined ? [] : ["-m", spec.model])];
}

const APPROVAL: Readonly<Record<string, string>> = { acceptEdits: "auto_edit", bypass: "yolo", plan: "plan" };

/** The largest `maxAttempts` that the CLI's settings allow. */
const MOST_ATTEMPTS = 10;

/** `~/.gemini/settings.json` of the agent's own home: nothing is updated, reported or downloaded. */
export function toSettings(spec: SessionSpec, auth: string): Record<string, unknown> {
  const tries = spec.retries?.tries;
  return {
    general: {
      enableAutoUpdate: false,
      enableAutoUpdateNotification: false,
      maxAttempts: tries && Math.min(tries, MOST_ATTEMPTS),
    },
    privacy: { usageStatisticsEnabled: false },
    telemetry: { enabled: false },
    security: { auth: { selectedType: auth }, ...toAllowed(spec) },
    ...toServers(spec),
    // The CLI would download ripgrep.
    tools: { useRipgrep: false, shell: { enableInteractiveShell: false } },
    modelConfigs: spec.variant === undefined ? undefined : { overrides: [toOverride(spec, spec.variant)] },
  };
}

/** Variables that MCP servers inherit. By default the CLI hides those that look like secrets. */
function toAllowed({ mcp }: SessionSpec): object {
  const allowed = Object.values(mcp ?? {}).flatMap((server) =>
    "inherit" in server ? (server.inherit ?? []) : [],
  );
  return allowed.length === 0 ? {} : { environmentVariableRedaction: { allowed } };
}

/** ACP has no field for a time limit, so the settings name a server with one. */
export function isInSettings(server: McpServer): boolean {
  return !("url" in server) && server.timeoutMs !== undefined;
}

function toServers({ mcp }: SessionSpec): object {
  const mcpServers = toMcpServers(mcp, {
    remote: () => undefined,
    local: ({ command, args = [], env = {}, timeoutMs: timeout }) =>
      timeout === undefined ? undefined : { command, args, env, timeout },
  });
  return Object.keys(mcpServers).length === 0 ? {} : { mcpServers };
}

const BUDGETS: Readonly<Record<string, number>> = { low: 1024, medium: 8192, high: 24_576 };

/** The thinking effort: a level since Gemini 3, a number of tokens before. */
function toOverride({ model }: SessionSpec, variant: string): Record<string, unknown> {
  const isOld = model !== undefined && /gemini-[12]/.test(model);
  const thinking = isOld
    ? { thinkingBudget: own(BUDGETS, variant) ?? BUDGETS["medium"] }
    : { thinkingLevel: variant.toUpperCase() };
  return {
    match: model === undefined ? {} : { model },
    modelConfig: { generateContentConfig: { thinkingConfig: { includeThoughts: true, ...thinking } } },
  };
}

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

function authOf(env: Env): "vertex-ai" | "gemini-api-key" | "oauth-personal" {
  if (usesVertex(env) || env["GOOGLE_GENAI_USE_VERTEXAI"] === "true") return "vertex-ai";
  return env["GEMINI_API_KEY"] === undefined ? "oauth-personal" : "gemini-api-key";
}

/**
 * The Gemini API with its key. Requests to Vertex do not go through the gateway: their addresses depend on project and
 * region.
 */
export function lead({ env = {} }: SessionSpec, variable: string): Lead | undefined {
  if (variable !== "GEMINI_API_KEY" || env["GOOGLE_GENAI_USE_VERTEXAI"] === "true") return undefined;
  return {
    route: {
      id: "google",
      provider: "google",
      upstream: env["GOOGLE_GEMINI_BASE_URL"] ?? "https://generativelanguage.googleapis.com",
      auth: { header: "x-goog-api-key" },
    },
    variables: (url) => ({ GOOGLE_GEMINI_BASE_URL: url }),
  };
}

/** A Google Cloud key is for Vertex. */
function usesVertex(env: Env): boolean {
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
