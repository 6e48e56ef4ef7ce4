import { z } from "zod";
import { type Agent, type AgentSkill, resolveSkills, SkillList, System } from "./agent.ts";
import { type Model, ModelParams, resolveModel } from "./model.ts";
import { assertToolsFit, type McpServer, McpServerList, resolveTools, type Tool, ToolList } from "./tools.ts";

/** The agent as a session keeps it: what it was when the session was made. */
export interface SessionAgent {
  readonly id: string;
  readonly type: "agent";
  readonly version: number;
  readonly name: string;
  readonly description: string | null;
  readonly model: Model;
  readonly system: string | null;
  readonly tools: readonly Tool[];
  readonly mcp_servers: readonly McpServer[];
  readonly skills: readonly AgentSkill[];
  readonly multiagent: null;
  readonly execution_identity: { readonly type: "service_account" };
}

const version = z.int().min(1).nullish();

/** How a session names its agent. */
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

/** An override replaces as a whole: left out it inherits, null or nothing clears. The model cannot be cleared. */
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

/** What `sessions.update` may change of the agent: tools and servers, each as a whole. */
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
