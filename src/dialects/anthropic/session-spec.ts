import type { Network, SessionSpec, Skill, ToolRule, ToolSettings } from "../../contract/index.ts";
import type { EnvironmentConfig } from "./resources/environment.ts";
import type { ResolvedSwitch } from "./resources/policy.ts";
import { refuse } from "./resources/refusal.ts";
import type { SessionAgent } from "./resources/session-agent.ts";
import { TOOLSET_TOOLS, type Tool } from "./resources/tools.ts";

/** Which harness runs an agent: the one that it names, else the one that its model belongs to. */
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

/** What a session has to be for its agent and its environment to be what they say. */
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

/** What of it follows from the part of an agent that can be changed while its session lives. */
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

/** Where package managers ask by themselves. */
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

// Nobody judges a call here: what a client leaves to judgement, a person decides on.
function toRule({ enabled, permission_policy: policy }: ResolvedSwitch): ToolRule {
  if (!enabled) return "deny";
  return policy.type === "always_allow" ? "allow" : "ask";
}

function toNetwork(agent: Pick<SessionAgent, "mcp_servers">, config: EnvironmentConfig): Network {
  // Where the tools run on the client's side, what runs here needs nothing but its model.
  if (config.type === "self_hosted") return { allow: [] };
  const { networking } = config;
  if (networking.type === "unrestricted") return { allow: ["*"] };
  const servers = networking.allow_mcp_servers ? agent.mcp_servers.map(({ url }) => toHost(url)) : [];
  const registries = networking.allow_package_managers ? REGISTRIES : [];
  return { allow: [...new Set([...networking.allowed_hosts, ...servers, ...registries])] };
}

/** With its port, also where the URL leaves it out: this machine is never open as a whole. */
function toHost(url: string): string {
  const { hostname, port, protocol } = new URL(url);
  return `${hostname}:${port || (protocol === "http:" ? 80 : 443)}`;
}
