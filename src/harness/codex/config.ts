import type { SessionSpec } from "../../contract/index.ts";
import { toMcpServers } from "../launch/mcp.ts";
import type { LaunchContext } from "../port.ts";
import { type TomlTable, toToml } from "../launch/toml.ts";

export const KEYS = ["OPENAI_API_KEY", "CODEX_API_KEY"] as const;

/** `config.toml`: the model and its provider, the MCP servers, and nothing that calls home. */
export function toConfig(spec: SessionSpec, context: LaunchContext): string {
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
    // Off by default: the plan, and questions outside of plan mode.
    tools: { update_plan: { enabled: true } },
    suppress_unstable_features_warning: true,
    // Plugins and apps call home; a goal makes Codex go on without a prompt.
    features: {
      plugins: false,
      apps: false,
      goals: false,
      default_mode_request_user_input: true,
      // It would write its whole environment, and every secret in it, into a file.
      shell_snapshot: false,
      ...withoutShell(spec),
    },
    mcp_servers: toServers(spec),
  });
}

/**
 * Without Codex's own shell, where the application runs the commands through the tool server. Codex asks before a
 * patch, and is refused.
 */
function withoutShell({ tools }: SessionSpec): TomlTable {
  return tools?.client?.includes("bash") ? { shell_tool: false, unified_exec: false } : {};
}

/** The session's own provider. Codex reports every attempt at a request, and makes as many as the budget allows. */
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
  // In the mode that asks for nothing Codex would refuse a call that it may not ask for.
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
