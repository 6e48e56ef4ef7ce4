import { Budget, McpServer, type PermissionMode, type SessionSpec } from "../contract/index.ts";
import { own } from "../contract/own-keys.ts";
import type { SandboxProvider } from "../sandbox/index.ts";
import { refuse } from "./agent-response.ts";
import { type ResultSchema, toResultInstructions } from "./files/output.ts";
import { type FileMap, hostFolder, innerFolder } from "./files/workspace.ts";
import type { CheckpointStore } from "./storage.ts";

/**
 * An MCP server that the agent may use: a program, or an address.
 *
 * @example
 * const docs: McpServerConfig = { command: "npx", args: ["-y", "my-docs-mcp"], env: { LANG: "en" } };
 * const remote: McpServerConfig = { url: "https://example.com/mcp", headers: { "x-team": "a" } };
 * new Sluice().withMcpServers({ docs, remote });
 */
export interface McpServerConfig {
  type?: "stdio" | "http" | "sse";
  command?: string;
  args?: string[];
  env?: Record<string, string>;
  url?: string;
  headers?: Record<string, string>;
}

/** The settings that the builders of an instance collect. */
export interface Settings {
  agent: AgentConfig;
  sandbox?: string | SandboxProvider;
  directory?: string;
  secrets: Record<string, string>;
  systemPrompt?: string;
  context: FileMap;
  files: FileMap;
  mcp: Record<string, McpServerConfig>;
  schema?: ResultSchema;
  budget?: Budget;
  checkpointStore?: CheckpointStore;
  server?: { url: string; token?: string | undefined };
  data?: string;
}

export function initialSettings(): Settings {
  return { agent: { type: "scripted" }, secrets: {}, context: {}, files: {}, mcp: {} };
}

/** The session's spec. `sandbox` is the provider's name in the backend. */
export async function toSessionSpec(
  settings: Settings,
  { sandbox, isolated }: { sandbox: string | undefined; isolated: boolean },
): Promise<SessionSpec> {
  const { systemPrompt, schema, checkpointStore, budget } = settings;
  const instructions = [
    systemPrompt,
    innerFolder(settings.directory) && `Work in the folder ${innerFolder(settings.directory)}.`,
    schema && toResultInstructions(schema),
  ].filter((text) => text !== undefined && text !== "");
  const { secrets, ...agent } = await toAgentSpec(settings.agent, { isolated });
  const directory = hostFolder(settings.directory);
  const mcp = Object.entries(settings.mcp).map(([name, server]) => [name, toMcpServer(name, server)]);
  return {
    ...agent,
    secrets: { ...secrets, ...toReferences(settings.secrets) },
    ...(instructions.length === 0 ? {} : { instructions: instructions.join("\n\n") }),
    ...(mcp.length === 0 ? {} : { mcp: Object.fromEntries(mcp) as Record<string, McpServer> }),
    ...(sandbox === undefined ? {} : { sandbox }),
    ...(directory === undefined ? {} : { directory }),
    ...(checkpointStore === undefined ? {} : { autoCheckpoint: true }),
    ...(checkpointStore?.name === undefined ? {} : { shelf: checkpointStore.name }),
    ...(budget === undefined ? {} : { budget }),
    echo: true,
    lasting: true,
    metadata: { via: "sdk" },
  };
}

function toReferences(secrets: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(secrets).map(([name, value]) => [name, `value:${value}`]));
}

function toMcpServer(name: string, config: McpServerConfig): McpServer {
  const typed = config.url !== undefined && config.type === undefined ? { ...config, type: "http" } : config;
  const parsed = McpServer.safeParse(typed);
  if (parsed.success) return parsed.data;
  throw refuse(
    `withMcpServers: "${name}" is neither a program ({ command, args?, env? }) nor an address ({ type?, url, headers? }).`,
  );
}

/**
 * The agents that can be run.
 *
 * @example
 * const type: AgentType = "codex";
 */
export type AgentType = "claude" | "codex" | "gemini" | "opencode" | "amp" | "grok" | "acp" | "scripted";

/**
 * The agent with its model and its key.
 *
 * @example
 * const agent: AgentConfig = { type: "claude", model: "claude-sonnet-4-5", apiKey: process.env["MY_KEY"] ?? "" };
 * new Sluice().withAgent(agent);
 */
export interface AgentConfig {
  type: AgentType;
  model?: string;
  /** The reasoning effort, by the agent's own name for it. */
  reasoningEffort?: string;
  /** The key of the model provider. It is in no event and in no environment of the sandbox. */
  apiKey?: string;
  /** The same as `apiKey`. */
  providerApiKey?: string;
  /** The token of a Claude login, instead of a key. */
  oauthToken?: string;
  /** The address of the model provider, if it is not the agent's default. */
  providerBaseUrl?: string;
  /** The program of an `acp` agent. */
  command?: string[];
  /**
   * The mode of permission for the agent's actions. `bypass`, the default in an isolated sandbox, allows all of them.
   * Any other mode needs a client that answers. In a `local` sandbox without a mode, every request is refused.
   */
  permissionMode?: PermissionMode;
}

type AgentSpec = Pick<SessionSpec, "agent" | "env" | "secrets"> & Partial<SessionSpec>;

/** The agent's part of a session's spec. */
async function toAgentSpec(config: AgentConfig, { isolated }: { isolated: boolean }): Promise<AgentSpec> {
  const { type, model, reasoningEffort, command } = config;
  const permissionMode = config.permissionMode ?? (isolated ? "bypass" : "default");
  const isUnattended = config.permissionMode === undefined || permissionMode === "bypass";
  return {
    agent: type,
    ...(model === undefined ? {} : { model }),
    ...(reasoningEffort === undefined ? {} : { variant: reasoningEffort }),
    ...(command === undefined ? {} : { command }),
    permissionMode,
    // No client answers here, so an open question would block the run for ever.
    ...(isUnattended ? { unattended: true } : {}),
    env: toAddress(config),
    secrets: await toKeys(config),
  };
}

async function toKeys(config: AgentConfig): Promise<Record<string, string>> {
  const { type, apiKey, providerApiKey, oauthToken } = config;
  const key = apiKey ?? providerApiKey;
  const keys: Record<string, string> = {};
  if (key !== undefined) keys[await keyVariable(type)] = `value:${key}`;
  if (oauthToken === undefined) return keys;
  if (type !== "claude") throw refuse(`${type} takes no oauthToken; give its apiKey, or log its CLI in`);
  return { ...keys, CLAUDE_CODE_OAUTH_TOKEN: `value:${oauthToken}` };
}

async function keyVariable(type: AgentType): Promise<string> {
  const { findHarness } = await import("../harness/registry.ts");
  for (const credential of findHarness(type).credentials ?? [])
    if ("env" in credential) return credential.env;
  throw refuse(`${type} has no key of its own; name the variable that it reads with withSecrets()`);
}

const ADDRESS_VARIABLES: Partial<Record<AgentType, string>> = {
  claude: "ANTHROPIC_BASE_URL",
  codex: "OPENAI_BASE_URL",
  opencode: "OPENAI_BASE_URL",
  gemini: "GOOGLE_GEMINI_BASE_URL",
  grok: "XAI_BASE_URL",
  amp: "AMP_URL",
};

function toAddress({ type, providerBaseUrl, model }: AgentConfig): Record<string, string> {
  if (providerBaseUrl === undefined) return {};
  const isAnthropic = type === "opencode" && model?.startsWith("anthropic/") === true;
  const variable = isAnthropic ? "ANTHROPIC_BASE_URL" : own(ADDRESS_VARIABLES, type);
  if (variable === undefined) throw refuse(`${type} takes no providerBaseUrl; leave it out`);
  return { [variable]: providerBaseUrl };
}
