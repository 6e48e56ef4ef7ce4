import type { Launch, SessionSpec } from "../../contract/index.ts";
import { defineCli } from "../launch/cli.ts";
import { skillFiles, toTomlString } from "../launch/files.ts";
import { asFields, hostOf, isText, mcpHosts, parseLogin } from "../launch/provider.ts";
import type { LaunchContext, Lead, LentLogin } from "../port.ts";

export const SKILLS_FOLDER = ".grok/skills";

const CLI = defineCli("grok", { title: "Grok Build", install: "npm install -g @xai-official/grok" });
export const { detect } = CLI;

/** `grok agent stdio`, without the leader process that would outlive it. */
export function launch(spec: SessionSpec, context: LaunchContext): Launch {
  const cli = CLI.require(context);
  const given = { ...spec.env, ...context.env };
  const sessionUrl = given["XAI_BASE_URL"] ?? given["OPENAI_BASE_URL"];
  const address = context.modelUrl ?? sessionUrl;
  // A session without an address of its own uses xAI's models, also through the gateway. The configuration needs no
  // entry for them.
  const base = sessionUrl === undefined ? undefined : address;
  const key = given["XAI_API_KEY"] ?? given["GROK_API_KEY"];
  return {
    argv: [cli.path, ...argumentsOf(spec)],
    env: {
      ...given,
      ...(key === undefined ? {} : { XAI_API_KEY: key }),
      HOME: context.home,
      ...QUIET,
      ...(address === undefined
        ? {}
        : { GROK_CLI_CHAT_PROXY_BASE_URL: address, GROK_XAI_API_BASE_URL: address }),
      ...(context.modelUrl === undefined || sessionUrl === undefined ? {} : { XAI_BASE_URL: address }),
      // Disables a second layer of retries, so that the session's own budget counts.
      ...(spec.retries === undefined ? {} : { GROK_TURN_TRANSIENT_RETRY: "0" }),
    },
    needs: cli.needs,
    hosts: [...modelHosts(address, key), ...mcpHosts(spec)],
    files: [
      {
        path: ".grok/config.toml",
        content: toConfig(spec, { base, hasKey: key !== undefined }),
        mode: 0o600,
      },
      ...rules(spec),
      ...skillFiles(SKILLS_FOLDER, spec),
    ],
  };
}

const QUIET = {
  GROK_DISABLE_AUTOUPDATER: "1",
  GROK_TELEMETRY_ENABLED: "0",
  GROK_FEEDBACK_ENABLED: "0",
  // No turns without a prompt, and no decorative model requests.
  GROK_AUTO_WAKE: "0",
  GROK_TURN_SUMMARY: "0",
  GROK_SESSION_RECAP: "0",
  GROK_TITLE_REFRESH: "0",
};

function argumentsOf({ model, variant, permissionMode }: SessionSpec): string[] {
  return [
    "agent",
    "--no-leader",
    ...(model === undefined ? [] : ["--model", model]),
    ...(variant === undefined ? [] : ["--reasoning-effort", variant]),
    ...(permissionMode === "bypass" ? ["--always-approve"] : []),
    "stdio",
  ];
}

/** The session's instructions as rules for every project. This mode cannot replace the system prompt. */
function rules({ systemPrompt, instructions }: SessionSpec): { path: string; content: string }[] {
  const content = [systemPrompt, instructions].filter((text) => text !== undefined).join("\n\n");
  return content === "" ? [] : [{ path: ".grok/AGENTS.md", content }];
}

/** The default model, where the session sets a base URL. */
const DEFAULT_MODEL = "grok-4.6";

const CONTEXT_WINDOW = 200_000;

/** `~/.grok/config.toml` of the agent's own home. */
function toConfig(
  spec: SessionSpec,
  { base, hasKey }: { base: string | undefined; hasKey: boolean },
): string {
  const retries = spec.retries === undefined ? [] : [`max_retries = ${spec.retries.tries - 1}`];
  const model = spec.model ?? DEFAULT_MODEL;
  return [
    "[cli]",
    "auto_update = false",
    "[features]",
    "telemetry = false",
    "auto_wake = false",
    "turn_summary = false",
    "session_recap = false",
    "title_refresh = false",
    "[marketplace]",
    "default_skills_installs_purged = true",
    "[models]",
    ...(base === undefined ? [] : [`default = ${toTomlString(model)}`]),
    ...retries,
    ...(base === undefined ? [] : providedModel(model, { base, hasKey, variant: spec.variant })),
    "",
  ].join("\n");
}

function providedModel(
  model: string,
  { base, hasKey, variant }: { base: string; hasKey: boolean; variant: string | undefined },
): string[] {
  return [
    `[model.${toTomlString(model)}]`,
    `model = ${toTomlString(model)}`,
    `base_url = ${toTomlString(base)}`,
    hasKey ? 'env_key = "XAI_API_KEY"' : 'api_key = "none"',
    'api_backend = "chat_completions"',
    `context_window = ${CONTEXT_WINDOW}`,
    ...(variant === undefined ? [] : [`reasoning_efforts = [${EFFORTS.map(toEffort).join(", ")}]`]),
  ];
}

const EFFORTS = ["low", "medium", "high", "xhigh"];

function toEffort(effort: string): string {
  return `{ id = ${toTomlString(effort)}, value = ${toTomlString(effort)}, label = ${toTomlString(effort)}, default = ${effort === "medium"} }`;
}

const KEY_SCOPE = "xai::api_key";
const OWN_SCOPE = "https://auth.x.ai::";

/** `.grok/auth.json`: logins by scope. Only xAI's own, without the refresh token, which Grok does not require. */
export function lendLogin(content: string): LentLogin | undefined {
  const scopes = Object.entries(parseLogin(content) ?? {});
  const [scope, value] =
    scopes.find(([name]) => name === KEY_SCOPE) ?? scopes.find(([name]) => name.startsWith(OWN_SCOPE)) ?? [];
  const login = asFields(value);
  if (scope === undefined || login === undefined || !isText(login["key"])) return undefined;
  const { refresh_token: _kept, ...lent } = login;
  const expiresAt = isText(login["expires_at"]) ? Date.parse(login["expires_at"]) : Number.NaN;
  return {
    content: JSON.stringify({ [scope]: lent }),
    expiresAt: Number.isNaN(expiresAt) ? undefined : expiresAt,
  };
}

/** xAI's API, or a server that is compatible with it. */
export function lead({ env = {} }: SessionSpec): Lead {
  return {
    route: {
      id: "xai",
      provider: "xai",
      upstream: env["XAI_BASE_URL"] ?? env["OPENAI_BASE_URL"] ?? "https://api.x.ai/v1",
      auth: { header: "authorization", scheme: "Bearer" },
    },
  };
}

/** A key is for the API, a login for the CLI's proxy. */
export function modelHosts(base: string | undefined, key: string | undefined): string[] {
  if (base !== undefined) return hostOf(base);
  return key === undefined ? ["cli-chat-proxy.grok.com"] : ["api.x.ai"];
}
