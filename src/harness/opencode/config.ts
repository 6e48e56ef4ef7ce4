import type { PermissionMode, SessionSpec } from "../../contract/index.ts";
import { type McpForm, toMcpServers } from "../launch/mcp.ts";
import { chooseModel, toProviders } from "./provider.ts";

export interface ConfigOptions {
  readonly keys: Readonly<Record<string, string>>;
  readonly provider: string;
  /** The path of the session's instructions. */
  readonly instructions?: string;
}

/** OpenCode's configuration for one session. It overrides the user's own in the agent's home. */
export function toConfig(
  spec: SessionSpec,
  { keys, provider, instructions }: ConfigOptions,
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
    ...(name === undefined ? {} : { model: name }),
    ...(agent === undefined ? {} : { default_agent: agent }),
    ...toProviders(spec, model, { keys, provider }),
    ...toAgents(spec, agent),
    ...(Object.keys(mcp).length === 0 ? {} : { mcp }),
    ...(instructions === undefined ? {} : { instructions: [instructions] }),
  };
}

/** The variant and the system prompt are settings of agents: of the chosen one, else of both. */
function toAgents({ variant, systemPrompt }: SessionSpec, agent: string | undefined): { agent?: unknown } {
  if (variant === undefined && systemPrompt === undefined) return {};
  const settings = {
    ...(variant === undefined ? {} : { variant }),
    ...(systemPrompt === undefined ? {} : { prompt: systemPrompt }),
  };
  const names = agent === undefined ? AGENTS : [agent];
  return { agent: Object.fromEntries(names.map((name) => [name, settings])) };
}

const MCP_FORM: McpForm<unknown> = {
  // A login by browser is impossible here.
  remote: ({ url, headers }) => ({
    type: "remote",
    url,
    enabled: true,
    oauth: false,
    ...(headers === undefined ? {} : { headers }),
  }),
  local: ({ command, args = [], env = {}, timeoutMs: timeout }) => ({
    type: "local",
    command: [command, ...args],
    enabled: true,
    ...(Object.keys(env).length === 0 ? {} : { environment: env }),
    ...(timeout === undefined ? {} : { timeout }),
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

/** OpenCode's own agents that can lead a session. */
export const AGENTS = ["build", "plan"] as const;

/** The agent of a session; undefined leaves it to the user's configuration. */
export function agentOf({ agentMode, permissionMode }: SessionSpec): string | undefined {
  return agentMode ?? (permissionMode === "plan" ? "plan" : undefined);
}
