import { z } from "zod";
import type { Network, SessionSpec, Skill, ToolRule, ToolSettings } from "../../../contract/index.ts";
import { type Agent, ModelParams, resolveModel, resolveSkills, SkillList, System } from "./agent.ts";
import type { EnvironmentConfig } from "./environment.ts";
import { refuse } from "./resource.ts";
import {
  assertToolsFit,
  McpServerList,
  type ResolvedSwitch,
  resolveTools,
  type Tool,
  ToolList,
  TOOLSET_TOOLS,
} from "./tools.ts";

/** The agent as it was at the session's creation. */
export type SessionAgent = Omit<Agent, "metadata" | "archived_at" | "created_at" | "updated_at">;

const version = z.int().min(1).nullish();

/** A session's choice of its agent. */
export const AgentChoice = z.union([
  z
    .string()
    .min(1)
    .transform((id) => ({ type: "agent" as const, id, version: undefined })),
  z.object({ type: z.literal("agent"), id: z.string().min(1), version }),
  z.object({
    type: z.literal("agent_with_overrides"),
    id: z.string().min(1),
    version,
    model: ModelParams.optional(),
    system: System.nullish(),
    tools: ToolList.nullish(),
    mcp_servers: McpServerList.nullish(),
    skills: SkillList.nullish(),
  }),
]);
export type AgentChoice = z.infer<typeof AgentChoice>;

/** An override replaces a whole field; an absent one inherits, null or an empty one clears. The model cannot be cleared. */
export function toSessionAgent(agent: Agent, choice?: AgentChoice): SessionAgent {
  const { id, type, version, name, description, multiagent, execution_identity } = agent;
  const inherited = { id, type, version, name, description, multiagent, execution_identity };
  const given = choice?.type === "agent_with_overrides" ? choice : undefined;
  const resolved: SessionAgent = {
    ...inherited,
    model: given?.model === undefined ? agent.model : resolveModel(given.model),
    system: given?.system === undefined ? agent.system : given.system || null,
    tools: given?.tools === undefined ? agent.tools : resolveTools(given.tools ?? []),
    mcp_servers: given?.mcp_servers === undefined ? agent.mcp_servers : (given.mcp_servers ?? []),
    skills: given?.skills === undefined ? agent.skills : resolveSkills(given.skills ?? []),
  };
  assertToolsFit(resolved.tools, resolved.mcp_servers);
  return resolved;
}

/** `sessions.update` may replace the agent's tools and servers. */
export const SessionAgentUpdate = z.object({
  tools: ToolList.nullish(),
  mcp_servers: McpServerList.nullish(),
});
export type SessionAgentUpdate = z.infer<typeof SessionAgentUpdate>;

export function updateSessionAgent(agent: SessionAgent, given: SessionAgentUpdate): SessionAgent {
  const updated = {
    ...agent,
    tools: given.tools === undefined ? agent.tools : resolveTools(given.tools ?? []),
    mcp_servers: given.mcp_servers === undefined ? agent.mcp_servers : (given.mcp_servers ?? []),
  };
  assertToolsFit(updated.tools, updated.mcp_servers);
  return updated;
}

/** The harness of an agent: from its metadata, else from its model. */
export function toHarness(
  { model, metadata }: { model: string; metadata: Readonly<Record<string, string>> },
  otherwise: string | undefined,
): string {
  const named = metadata["harness"];
  if (named) return named;
  const [, harness] = BY_MODEL.find(([pattern]) => pattern.test(model)) ?? [];
  const chosen = harness ?? otherwise;
  if (chosen !== undefined) return chosen;
  throw refuse(
    `agent: no harness is known for the model ${model}. Set metadata.harness of the agent, or start the server with --agent.`,
  );
}

/** The session's spec for an agent in an environment. */
export function toSessionSpec(
  agent: SessionAgent,
  given: { harness: string; config: EnvironmentConfig; skills: Skill[] },
): SessionSpec {
  const { harness, config, skills } = given;
  const isOwnModel = agent.model.id !== harness;
  return {
    agent: harness,
    ...(isOwnModel ? { model: agent.model.id } : {}),
    ...(agent.system === null ? {} : { systemPrompt: agent.system }),
    ...(skills.length === 0 ? {} : { skills }),
    ...toSettings(agent, config),
    network: toNetwork(agent, config),
  };
}

/** The part of the spec that can change during the session. */
export function toSettings(
  agent: Pick<SessionAgent, "tools" | "mcp_servers">,
  config: EnvironmentConfig,
): { tools: ToolSettings; mcp: NonNullable<SessionSpec["mcp"]> } {
  const servers = agent.mcp_servers.map(({ name, url }) => [name, { type: "http" as const, url }]);
  return { tools: toToolSettings(agent.tools, config), mcp: Object.fromEntries(servers) };
}

const BY_MODEL: readonly (readonly [RegExp, string])[] = [
  [/^scripted$/, "scripted"],
  [/^claude/, "claude"],
  [/^(gpt|codex|o\d)/, "codex"],
  [/^gemini/, "gemini"],
  [/^grok/, "grok"],
];

/** The hosts of package managers. */
const REGISTRIES = [
  "*.npmjs.org",
  "pypi.org",
  "*.pythonhosted.org",
  "crates.io",
  "*.crates.io",
  "rubygems.org",
  "*.rubygems.org",
  "*.golang.org",
  "*.debian.org",
  "*.ubuntu.com",
];

function toToolSettings(tools: readonly Tool[], config: EnvironmentConfig): ToolSettings {
  const rules: Record<string, ToolRule> = {};
  const custom: NonNullable<ToolSettings["custom"]> = [];
  for (const tool of tools) {
    if (tool.type === "custom") {
      const { name, description, input_schema: inputSchema } = tool;
      custom.push({ name, description, inputSchema });
      continue;
    }
    const prefix = tool.type === "mcp_toolset" ? `mcp__${tool.mcp_server_name}__` : "";
    rules[`${prefix}*`] = toRule(tool.default_config);
    for (const config of tool.configs) rules[prefix + config.name] = toRule(config);
  }
  const client = config.type === "self_hosted" ? { client: [...TOOLSET_TOOLS] } : {};
  return { rules, ...client, ...(custom.length === 0 ? {} : { custom }) };
}

/** Sluice does not judge calls, so `auto` means that a person decides. */
function toRule({ enabled, permission_policy: policy }: ResolvedSwitch): ToolRule {
  if (!enabled) return "deny";
  return policy.type === "always_allow" ? "allow" : "ask";
}

function toNetwork(agent: Pick<SessionAgent, "mcp_servers">, config: EnvironmentConfig): Network {
  // The client runs the tools, so the agent here needs only its model.
  if (config.type === "self_hosted") return { allow: [] };
  const { networking } = config;
  if (networking.type === "unrestricted") return { allow: ["*"] };
  const servers = networking.allow_mcp_servers ? agent.mcp_servers.map(({ url }) => toHost(url)) : [];
  const registries = networking.allow_package_managers ? REGISTRIES : [];
  return { allow: [...new Set([...networking.allowed_hosts, ...servers, ...registries])] };
}

/** The host of a URL, always with its port: a local MCP server must not open every port of this machine. */
function toHost(url: string): string {
  const { hostname, port, protocol } = new URL(url);
  return `${hostname}:${port || (protocol === "http:" ? 80 : 443)}`;
}
