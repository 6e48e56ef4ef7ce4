import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Launch, SessionSpec } from "../../contract/index.ts";
import { pick } from "../fields.ts";
import { defineCli, nodeOf } from "../launch/cli.ts";
import { skillFiles, type TomlTable, toToml } from "../launch/files.ts";
import { toMcpServers } from "../launch/mcp.ts";
import { packageRoot } from "../launch/npm-package.ts";
import {
  asFields,
  hostOf,
  isText,
  mcpHosts,
  NO_REFRESH_TOKEN,
  parseLogin,
  tokenExpiry,
} from "../launch/provider.ts";
import type { LaunchContext, Lead, LentLogin } from "../port.ts";

const FOLDER = ".codex";
export const SKILLS_FOLDER: string = `${FOLDER}/skills`;
/** Codex refuses a home inside the folder for temporary files. */
const TEMPORARY = ".cache/codex-tmp";

/** Starts the app-server. Its settings follow when the conversation is opened. */
export function launch(spec: SessionSpec, context: LaunchContext): Launch {
  const { argv, needs } = findProgram(context);
  const { home } = context;
  const key = KEYS.map((name) => context.env?.[name]).find((value) => value !== undefined);
  const auth = { path: `${FOLDER}/auth.json`, content: JSON.stringify({ OPENAI_API_KEY: key }), mode: 0o600 };
  return {
    argv: [...argv, "app-server"],
    env: {
      ...spec.env,
      HOME: home,
      CODEX_HOME: join(home, FOLDER),
      TMPDIR: join(home, TEMPORARY),
      RUST_LOG: "error",
      NO_COLOR: "1",
    },
    needs,
    hosts: [...modelHosts(spec, context), ...mcpHosts(spec)],
    files: [
      // Headers and environments of MCP servers hold secrets.
      { path: `${FOLDER}/config.toml`, content: toConfig(spec, context), mode: 0o600 },
      { path: `${TEMPORARY}/.keep`, content: "" },
      ...(key === undefined ? [] : [auth]),
      ...skillFiles(SKILLS_FOLDER, spec),
    ],
  };
}

const CLI = defineCli("codex", { title: "Codex", install: "npm install -g @openai/codex" });
export const { detect } = CLI;

/** The program of Codex, and the paths that it needs. */
export interface Program {
  readonly argv: readonly string[];
  readonly needs: readonly string[];
}

function findProgram(context: LaunchContext): Program {
  const cli = CLI.require(context);
  if (!cli.path.endsWith(".js")) return { argv: [cli.path], needs: cli.needs };
  // npm's launcher only starts the binary beside it. It would be one more process to end.
  const native = context.programs ? undefined : findNative(cli.path);
  if (native) return native;
  const node = nodeOf(context);
  return { argv: [node, cli.path], needs: [...cli.needs, node] };
}

/** `@openai/codex-<platform>-<arch>/vendor/<target>/bin/codex`, next to the launcher's package or inside of it. */
function findNative(launcher: string): Program | undefined {
  const root = packageRoot(launcher);
  if (root === undefined) return undefined;
  const name = `codex-${process.platform}-${process.arch}`;
  const folders = [join(dirname(root), name), join(root, "node_modules", "@openai", name), root];
  for (const folder of folders) {
    const vendor = join(folder, "vendor");
    for (const target of existsSync(vendor) ? readdirSync(vendor) : []) {
      const path = join(vendor, target, "bin", "codex");
      if (existsSync(path)) return { argv: [path], needs: [join(vendor, target)] };
    }
  }
  return undefined;
}

const KEYS = ["OPENAI_API_KEY", "CODEX_API_KEY"] as const;

/** `config.toml`: the model and its provider, the MCP servers, and nothing that calls home. */
function toConfig(spec: SessionSpec, context: LaunchContext): string {
  return toToml({
    model: spec.model,
    model_provider: "sluice",
    model_reasoning_effort: spec.variant,
    model_reasoning_summary: "auto",
    check_for_update_on_startup: false,
    cli_auth_credentials_store: "file",
    model_providers: { sluice: toProvider(spec, context) },
    analytics: { enabled: false },
    feedback: { enabled: false },
    otel: { exporter: "none", metrics_exporter: "none" },
    history: { persistence: "none" },
    // The tool for the plan is off by default.
    tools: { update_plan: { enabled: true } },
    suppress_unstable_features_warning: true,
    // Plugins and apps call home; a goal makes Codex go on without a prompt.
    features: {
      plugins: false,
      apps: false,
      goals: false,
      // Questions outside of plan mode are off by default.
      default_mode_request_user_input: true,
      // A snapshot would write the whole environment, with every secret, into a file.
      shell_snapshot: false,
      ...withoutShell(spec),
    },
    mcp_servers: toServers(spec),
  });
}

/**
 * The settings without Codex's own shell, if the application runs the commands. Codex asks before a patch, and that
 * request is refused.
 */
function withoutShell({ tools }: SessionSpec): TomlTable {
  return tools?.client?.includes("bash") ? { shell_tool: false, unified_exec: false } : {};
}

/**
 * The session's own provider. Codex reports each attempt at a request, and makes as many attempts as the session
 * allows.
 */
function toProvider(spec: SessionSpec, context: LaunchContext): TomlTable {
  const retries = spec.retries === undefined ? {} : { stream_max_retries: spec.retries.tries - 1 };
  const given = KEYS.find((key) => spec.env?.[key] !== undefined || spec.secrets?.[key] !== undefined);
  const found = KEYS.some((key) => context.env?.[key] !== undefined);
  const base = spec.env?.["OPENAI_BASE_URL"];
  return {
    name: "sluice",
    base_url: base,
    wire_api: "responses",
    env_key: given,
    // Without a key Codex uses the login in auth.json; a model at another address may need none.
    requires_openai_auth: given === undefined && (found || base === undefined) ? true : undefined,
    request_max_retries: 0,
    stream_max_retries: DEFAULT_TRIES - 1,
    ...retries,
  };
}

const DEFAULT_TRIES = 4;

function toServers({ mcp, permissionMode }: SessionSpec): TomlTable {
  // In the mode "never", Codex would refuse a call that needs permission instead of asking.
  const approval = permissionMode === "bypass" ? "approve" : undefined;
  return toMcpServers<TomlTable>(mcp, {
    remote: ({ url, headers }) => ({ url, http_headers: headers, default_tools_approval_mode: approval }),
    local: ({ command, args, env, inherit, timeoutMs }) => ({
      command,
      args,
      env,
      env_vars: inherit,
      tool_timeout_sec: timeoutMs === undefined ? undefined : Math.ceil(timeoutMs / 1000),
      default_tools_approval_mode: approval,
    }),
  });
}

/**
 * `.codex/auth.json`: a key, or a login with ChatGPT. Codex requires a refresh token in a login, but any value will
 * do.
 */
export function lendLogin(content: string): LentLogin | undefined {
  const auth = parseLogin(content);
  const key = auth?.["OPENAI_API_KEY"];
  if (isText(key)) return { content: JSON.stringify({ OPENAI_API_KEY: key }) };
  const tokens = asFields(auth?.["tokens"]);
  if (auth === undefined || tokens === undefined || !isText(tokens["access_token"])) return undefined;
  const lent = {
    ...pick(auth, ["auth_mode", "last_refresh"]),
    OPENAI_API_KEY: null,
    tokens: { ...pick(tokens, ["id_token", "access_token", "account_id"]), refresh_token: NO_REFRESH_TOKEN },
  };
  return { content: JSON.stringify(lent), expiresAt: tokenExpiry(tokens["access_token"]) };
}

/** Whether the file of a lent login holds a key. */
function isKeyLogin(login: string | undefined): boolean {
  return login !== undefined && isText(parseLogin(login)?.["OPENAI_API_KEY"]);
}

/** OpenAI's Responses API, Azure's, or another server that has it. */
export function lead({ env = {} }: SessionSpec): Lead {
  const azure = toAzure(env);
  return {
    route: {
      id: "openai",
      provider: "openai",
      upstream: env["OPENAI_BASE_URL"] ?? "https://api.openai.com/v1",
      auth: { header: "authorization", scheme: "Bearer" },
      ...azure,
    },
    variables: (url) => ({ OPENAI_BASE_URL: url }),
  };
}

/** Azure takes its key in a header of its own, and older addresses want a version. */
function toAzure(env: Readonly<Record<string, string>>): Partial<Lead["route"]> {
  const { OPENAI_BASE_URL: base = "", OPENAI_API_VERSION: version } = env;
  const host = URL.canParse(base) ? new URL(base).hostname : "";
  if (version === undefined && !/\.(?:openai|cognitiveservices|services\.ai)\.azure\.com$/.test(host))
    return {};
  const query = version === undefined ? {} : { query: { "api-version": version } };
  return { provider: "azure", auth: { header: "api-key" }, ...query };
}

/**
 * A key is for the API, a login for ChatGPT's own host. The agent cannot renew a login, so it needs no host for
 * that.
 */
export function modelHosts({ env, secrets }: SessionSpec, context: LaunchContext): string[] {
  const base = env?.["OPENAI_BASE_URL"];
  if (base !== undefined) return hostOf(base);
  const hasKey = KEYS.some((name) => (context.env?.[name] ?? env?.[name] ?? secrets?.[name]) !== undefined);
  return hasKey || isKeyLogin(context.login) ? ["api.openai.com"] : ["chatgpt.com"];
}
