import { own } from "../contract/ownKeys.ts";
import { type PermissionMode, type SessionSpec, SluiceError } from "../contract/index.ts";
import { findHarness } from "../harness/registry.ts";

/**
 * The agents that can be run.
 *
 * @example
 * const type: AgentType = "codex";
 */
export type AgentType = "claude" | "codex" | "gemini" | "opencode" | "amp" | "grok" | "acp" | "scripted";

/**
 * Which agent runs, with which model and whose key.
 *
 * @example
 * const agent: AgentConfig = { type: "claude", model: "claude-sonnet-4-5", apiKey: process.env["MY_KEY"] ?? "" };
 * new Sluice().withAgent(agent);
 */
export interface AgentConfig {
  type: AgentType;
  model?: string;
  /** How hard it thinks, in the agent's own words. */
  reasoningEffort?: string;
  /** The key of the model's provider. It is kept out of every event and of the sandbox's environment. */
  apiKey?: string;
  /** The same. */
  providerApiKey?: string;
  /** A login instead of a key (Claude). */
  oauthToken?: string;
  /** Where the model is asked, instead of its provider's own address. */
  providerBaseUrl?: string;
  /** The program that speaks the protocol, for `acp`. */
  command?: string[];
  /**
   * Who decides what the agent may do. `bypass`, the default of an isolated sandbox, asks nobody; with any other that is
   * named somebody has to answer. Under `local` it has to be named: what the agent asks for is refused otherwise.
   */
  permissionMode?: PermissionMode;
}

type AgentSpec = Pick<SessionSpec, "agent" | "env" | "secrets"> & Partial<SessionSpec>;

/** What the configuration means for a session. */
export function toAgentSpec(config: AgentConfig, { isolated }: { isolated: boolean }): AgentSpec {
  const { type, model, reasoningEffort, command } = config;
  const permissionMode = config.permissionMode ?? (isolated ? "bypass" : "default");
  const isUnattended = config.permissionMode === undefined || permissionMode === "bypass";
  return {
    agent: type,
    ...(model === undefined ? {} : { model }),
    ...(reasoningEffort === undefined ? {} : { variant: reasoningEffort }),
    ...(command === undefined ? {} : { command }),
    permissionMode,
    // Nobody is there who could answer; a question must not keep a run waiting for ever.
    ...(isUnattended ? { unattended: true } : {}),
    env: toAddress(config),
    secrets: toKeys(config),
  };
}

function toKeys({ type, apiKey, providerApiKey, oauthToken }: AgentConfig): Record<string, string> {
  const key = apiKey ?? providerApiKey;
  const keys: Record<string, string> = {};
  if (key !== undefined) keys[keyVariable(type)] = `value:${key}`;
  if (oauthToken === undefined) return keys;
  if (type !== "claude") throw refuse(`${type} takes no oauthToken; give its apiKey, or log its CLI in`);
  return { ...keys, CLAUDE_CODE_OAUTH_TOKEN: `value:${oauthToken}` };
}

function keyVariable(type: AgentType): string {
  for (const credential of findHarness(type).credentials ?? [])
    if ("env" in credential) return credential.env;
  throw refuse(`${type} has no key of its own; name the variable that it reads with withSecrets()`);
}

const ADDRESSES: Partial<Record<AgentType, string>> = {
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
  const variable = isAnthropic ? "ANTHROPIC_BASE_URL" : own(ADDRESSES, type);
  if (variable === undefined) throw refuse(`${type} has no provider whose address could be another`);
  return { [variable]: providerBaseUrl };
}

function refuse(detail: string): SluiceError {
  return new SluiceError("invalid_request", detail);
}
