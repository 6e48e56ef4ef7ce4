import type { BetaManagedAgentsAgentToolConfig } from "@anthropic-ai/sdk/resources/beta/agents";
import { z } from "zod";
import { type Immutable, refuse } from "./resource.ts";

/** Whether a tool runs without a permission request. */
export const Policy = z.union([
  z.object({ type: z.literal("always_allow") }),
  z.object({ type: z.literal("always_ask") }),
  z.object({ type: z.literal("auto") }),
]);
export type Policy = z.infer<typeof Policy>;

export const Switch = z.object({ enabled: z.boolean().nullish(), permission_policy: Policy.nullish() });
export type Switch = z.infer<typeof Switch>;

export interface ResolvedSwitch {
  readonly enabled: boolean;
  readonly permission_policy: Policy;
}

function resolveSwitch(given: Switch | null | undefined, otherwise: ResolvedSwitch): ResolvedSwitch {
  return {
    enabled: given?.enabled ?? otherwise.enabled,
    permission_policy: given?.permission_policy ?? otherwise.permission_policy,
  };
}

export const TOOLSET_TOOLS = [
  "bash",
  "read",
  "write",
  "edit",
  "glob",
  "grep",
  "web_fetch",
  "web_search",
] as const;
export type ToolsetTool = (typeof TOOLSET_TOOLS)[number];

const Domains = z
  .array(
    z
      .string()
      .regex(
        /^[A-Za-z0-9*]([A-Za-z0-9.*-]*[A-Za-z0-9])?$/,
        "a plain host name, without scheme, port or path",
      ),
  )
  .min(1, "leave it out instead of giving an empty list")
  .max(64);
const domains = { allowed_domains: Domains.nullish(), blocked_domains: Domains.nullish() };

const ToolReference = z.object({ type: z.literal("tool_reference"), name: z.string().min(1) });
const All = z.object({ type: z.literal("all") });
const None = z.object({ type: z.literal("none") });
const Shorthand = z.enum(["all", "none"]).transform((type) => ({ type }));
const References = z.array(ToolReference).min(1).max(128);
const ToolFilter = z.union([
  Shorthand,
  All,
  None,
  z.object({ type: z.literal("only"), tools: References }),
  z.object({ type: z.literal("except"), tools: References }),
]);

const UrlSources = z.object({
  client_tool_results: ToolFilter.nullish().transform((value) => value ?? null),
  server_tool_results: ToolFilter.nullish().transform((value) => value ?? null),
  user_input: z
    .union([Shorthand, All, None])
    .nullish()
    .transform((value) => value ?? null),
});

const webFetch = {
  ...domains,
  max_content_tokens: z.int().min(1).nullish(),
  url_sources: UrlSources.nullish(),
};

const webSearch = {
  ...domains,
  user_location: z
    .object({
      type: z.literal("approximate"),
      city: z.string().nullish(),
      country: z.string().nullish(),
      region: z.string().nullish(),
      timezone: z.string().nullish(),
    })
    .nullish(),
};

const configOf = (name: ToolsetTool) =>
  z.object({ name: z.literal(name), type: z.literal(name).nullish(), ...Switch.shape });

const ToolsetConfig = z.discriminatedUnion("name", [
  configOf("bash"),
  configOf("read"),
  configOf("write"),
  configOf("edit"),
  configOf("glob"),
  configOf("grep"),
  z.object({ ...configOf("web_fetch").shape, ...webFetch }),
  z.object({ ...configOf("web_search").shape, ...webSearch }),
]);

const AgentToolsetParams = z.object({
  type: z.literal("agent_toolset_20260401"),
  default_config: Switch.nullish(),
  configs: z.array(ToolsetConfig).nullish(),
});

const McpToolsetParams = z.object({
  type: z.literal("mcp_toolset"),
  mcp_server_name: z.string().min(1).max(255),
  default_config: Switch.nullish(),
  configs: z.array(z.object({ name: z.string().min(1).max(128), ...Switch.shape })).nullish(),
});

export const CustomTool = z.object({
  type: z.literal("custom"),
  name: z.string().regex(/^[A-Za-z0-9_-]{1,128}$/, "1 to 128 letters, digits, underscores or hyphens"),
  description: z.string(),
  input_schema: z.looseObject({ type: z.literal("object") }),
});
export type CustomTool = z.infer<typeof CustomTool>;

export const ToolParams = z.discriminatedUnion("type", [AgentToolsetParams, McpToolsetParams, CustomTool]);
export type ToolParams = z.infer<typeof ToolParams>;
export const ToolList = z.array(ToolParams);

export interface AgentToolset {
  readonly type: "agent_toolset_20260401";
  readonly default_config: ResolvedSwitch;
  readonly configs: readonly Immutable<BetaManagedAgentsAgentToolConfig>[];
}

export interface McpToolset {
  readonly type: "mcp_toolset";
  readonly mcp_server_name: string;
  readonly default_config: ResolvedSwitch;
  readonly configs: readonly (ResolvedSwitch & { readonly name: string })[];
}

export type Tool = AgentToolset | McpToolset | CustomTool;

export const McpServerParams = z.object({
  type: z.literal("url"),
  // The name becomes a part of a URL.
  name: z
    .string()
    .min(1)
    .max(255)
    .regex(/^\P{Cs}+$/u, "unpaired surrogates cannot be sent"),
  url: z.url({ protocol: /^https?$/, error: "expected an http or https URL" }),
});
export type McpServer = z.infer<typeof McpServerParams>;
export const McpServerList = z.array(McpServerParams).max(20);

const MAX_TOOLS = 256;
const ALLOW: ResolvedSwitch = { enabled: true, permission_policy: { type: "always_allow" } };
const ASK: ResolvedSwitch = { enabled: true, permission_policy: { type: "always_ask" } };

export function resolveTools(given: readonly ToolParams[]): Tool[] {
  const count = given.reduce((sum, tool) => sum + ("configs" in tool ? (tool.configs?.length ?? 0) : 1), 0);
  if (given.length > MAX_TOOLS || count > MAX_TOOLS)
    throw refuse(`tools: at most ${MAX_TOOLS} tools are allowed.`);
  const tools = given.map(resolveTool);
  assertUnique("tools", tools.map(toIdentity));
  return tools;
}

/** Each server needs a toolset and each toolset a server. */
export function assertToolsFit(tools: readonly Tool[], servers: readonly McpServer[]): void {
  assertUnique(
    "mcp_servers",
    servers.map(({ name }) => name),
  );
  const named = new Set(tools.flatMap((tool) => (tool.type === "mcp_toolset" ? [tool.mcp_server_name] : [])));
  for (const { name } of servers)
    if (!named.has(name)) throw refuse(`mcp_servers: no mcp_toolset in tools names the server ${name}.`);
  const known = new Set(servers.map(({ name }) => name));
  for (const name of named)
    if (!known.has(name)) throw refuse(`tools: an mcp_toolset names ${name}, which is not in mcp_servers.`);
}

function resolveTool(tool: ToolParams): Tool {
  if (tool.type === "custom") return tool;
  const isMcp = tool.type === "mcp_toolset";
  const default_config = resolveSwitch(tool.default_config, isMcp ? ASK : ALLOW);
  assertUnique(
    `${tool.type}: configs`,
    (tool.configs ?? []).map(({ name }) => name),
  );
  if (isMcp) {
    const configs = (tool.configs ?? []).map((config) =>
      Object.assign({ name: config.name }, resolveSwitch(config, default_config)),
    );
    return { type: tool.type, mcp_server_name: tool.mcp_server_name, default_config, configs };
  }
  const configs = (tool.configs ?? []).map((config) => resolveConfig(config, default_config));
  return { type: tool.type, default_config, configs };
}

function resolveConfig(
  config: z.infer<typeof ToolsetConfig>,
  otherwise: ResolvedSwitch,
): AgentToolset["configs"][number] {
  const { name } = config;
  const resolved = { type: name, name, ...resolveSwitch(config, otherwise), ...resolveWebConfig(config) };
  // Each name has the fields of its own tool, which the compiler cannot follow here.
  return resolved as AgentToolset["configs"][number];
}

interface WebConfig {
  readonly name: string;
  readonly allowed_domains?: string[] | null | undefined;
  readonly blocked_domains?: string[] | null | undefined;
  readonly max_content_tokens?: number | null | undefined;
  readonly url_sources?: z.infer<typeof UrlSources> | null | undefined;
  readonly user_location?: z.infer<typeof webSearch.user_location>;
}

function resolveWebConfig(config: WebConfig): Record<string, unknown> {
  const { name, allowed_domains, blocked_domains, max_content_tokens, url_sources, user_location } = config;
  if (allowed_domains && blocked_domains)
    throw refuse(`${name}: allowed_domains and blocked_domains exclude each other.`);
  return {
    ...(allowed_domains && { allowed_domains }),
    ...(blocked_domains && { blocked_domains }),
    ...(max_content_tokens && { max_content_tokens }),
    ...(user_location && { user_location }),
    ...(name === "web_fetch" && { url_sources: url_sources ?? null }),
  };
}

function toIdentity(tool: Tool): string {
  if (tool.type === "custom") return tool.name;
  return tool.type === "mcp_toolset" ? `mcp_toolset of ${tool.mcp_server_name}` : tool.type;
}

function assertUnique(where: string, names: readonly string[]): void {
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) throw refuse(`${where}: ${twice} appears twice. Leave one out.`);
}
