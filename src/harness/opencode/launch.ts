import { dirname, join } from "node:path";
import type { Launch, PermissionMode, SessionSpec } from "../../contract/index.ts";
import { defineCli, nodeOf, ownPath } from "../launch/cli.ts";
import { findOwnProgram } from "../launch/executable.ts";
import { skillFiles } from "../launch/files.ts";
import { type McpForm, toMcpServers } from "../launch/mcp.ts";
import { mcpHosts } from "../launch/provider.ts";
import type { Credential, LaunchContext } from "../port.ts";
import {
  agentOf,
  AGENTS,
  chooseModel,
  KEYS,
  keysFor,
  lendLogin,
  loginProvider,
  providerHosts,
  providerOf,
  toProviders,
} from "./provider.ts";

export const SKILLS_FOLDER = ".config/opencode/skills";

const CLI = defineCli("opencode", { title: "OpenCode", install: "npm install -g opencode-ai" });
export const { detect } = CLI;
const CONFIG = ".sluice/opencode.json";
const INSTRUCTIONS = ".sluice/instructions.md";

export const credentials: readonly Credential[] = [
  ...Object.keys(KEYS).map((env) => ({ env })),
  { file: ".local/share/opencode/auth.json", lend: lendLogin },
];

/** The keys of the model's provider, and the login file, of which only that provider's part is used. */
export function credentialsFor(spec: SessionSpec): readonly Credential[] {
  const names = new Set(keysFor(spec));
  return credentials.filter((known) => !("env" in known) || names.has(known.env));
}

/** Starts the gateway, which runs `opencode serve`. The session's settings are in files. */
export function launch(spec: SessionSpec, context: LaunchContext): Launch {
  const cli = CLI.require(context);
  const gateway = ownPath(join(dirname(findOwnProgram().path), "opencode-gateway.js"), context);
  const { home, resume, fork, modelUrl, env: keys = {} } = context;
  const instructions = spec.instructions === undefined ? undefined : join(home, INSTRUCTIONS);
  const provider = providerOf(spec, { keys, login: loginProvider(context.login) });
  const config = toConfig(spec, { keys, provider, instructions, modelUrl });
  const argv = [nodeOf(context), gateway];
  if (resume !== undefined) argv.push(`--resume=${resume}`);
  if (resume !== undefined && fork === true) argv.push("--fork");
  if (spec.title !== undefined) argv.push(`--title=${spec.title}`);
  return {
    argv: [...argv, "--", cli.path],
    env: { ...spec.env, ...QUIET, HOME: home, OPENCODE_CONFIG: join(home, CONFIG) },
    needs: [process.execPath, gateway, ...cli.needs],
    hosts: [...providerHosts(provider, spec, modelUrl), ...mcpHosts(spec)],
    files: [
      { path: CONFIG, content: JSON.stringify(config, null, 2), mode: 0o600 },
      ...(spec.instructions === undefined ? [] : [{ path: INSTRUCTIONS, content: spec.instructions }]),
      ...skillFiles(SKILLS_FOLDER, spec),
      ...INSTALLED,
    ],
  };
}

/** Marks the dependencies of plugins as installed, so that OpenCode downloads nothing. */
const INSTALLED = [
  { path: ".config/opencode/node_modules/.keep", content: "" },
  {
    path: ".config/opencode/package-lock.json",
    content: JSON.stringify({ packages: { "": { dependencies: { "@opencode-ai/plugin": "*" } } } }),
  },
];

const QUIET = {
  OPENCODE_DISABLE_AUTOUPDATE: "1",
  OPENCODE_DISABLE_MODELS_FETCH: "1",
  OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
  // OpenCode downloads them at its start.
  OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
} as const;

interface ConfigOptions {
  readonly keys: Readonly<Record<string, string>>;
  readonly provider: string;
  /** The path of the session's instructions. */
  readonly instructions: string | undefined;
  readonly modelUrl: string | undefined;
}

/** OpenCode's configuration for one session. It overrides the user's own in the agent's home. */
function toConfig(
  spec: SessionSpec,
  { keys, provider, instructions, modelUrl }: ConfigOptions,
): Record<string, unknown> {
  const model = chooseModel(spec);
  const name = model === undefined ? spec.model : `${model.providerID}/${model.modelID}`;
  const agent = agentOf(spec);
  const mcp = toMcpServers(spec.mcp, MCP_FORM);
  return {
    $schema: "https://opencode.ai/config.json",
    autoupdate: false,
    share: "disabled",
    permission: toPermissions(spec.permissionMode),
    model: name,
    default_agent: agent,
    ...toProviders(spec, model, { keys, provider, modelUrl }),
    ...toAgents(spec, agent),
    mcp: Object.keys(mcp).length === 0 ? undefined : mcp,
    instructions: instructions === undefined ? undefined : [instructions],
  };
}

/** The variant and the system prompt are settings of agents: of the chosen one, else of both. */
function toAgents({ variant, systemPrompt }: SessionSpec, agent: string | undefined): { agent?: unknown } {
  if (variant === undefined && systemPrompt === undefined) return {};
  const names = agent === undefined ? AGENTS : [agent];
  return { agent: Object.fromEntries(names.map((name) => [name, { variant, prompt: systemPrompt }])) };
}

const MCP_FORM: McpForm<unknown> = {
  // A login by browser is impossible here.
  remote: ({ url, headers }) => ({ type: "remote", url, enabled: true, oauth: false, headers }),
  local: ({ command, args = [], env = {}, timeoutMs: timeout }) => ({
    type: "local",
    command: [command, ...args],
    enabled: true,
    environment: Object.keys(env).length === 0 ? undefined : env,
    timeout,
  }),
  reference: (variable) => `{env:${variable}}`,
};

type Action = "allow" | "ask" | "deny";

/** By default OpenCode asks only before it leaves its folder. */
const ASKING: Readonly<Record<string, Action>> = {
  bash: "ask",
  edit: "ask",
  webfetch: "ask",
  websearch: "ask",
};

/** The tools that ask first. In plan mode OpenCode's own agent denies edits. */
export function toPermissions(mode: PermissionMode | undefined): Readonly<Record<string, Action>> {
  switch (mode) {
    case "bypass":
      return { "*": "allow", external_directory: "allow", doom_loop: "allow" };
    case "acceptEdits":
      return { ...ASKING, edit: "allow" };
    case "plan": {
      const { edit: _, ...rest } = ASKING;
      return rest;
    }
    default:
      return ASKING;
  }
}
