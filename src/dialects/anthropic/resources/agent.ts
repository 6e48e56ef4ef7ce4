import { z } from "zod";
import { SluiceError } from "../../../contract/index.ts";
import { Metadata, MetadataPatch, patchMetadata, toMetadata } from "./metadata.ts";
import { type Model, ModelParams, resolveModel } from "./model.ts";
import { refuse, unsupported } from "./refusal.ts";
import { type Stored, toTimes } from "./stored.ts";
import { assertToolsFit, type McpServer, McpServerList, resolveTools, type Tool, ToolList } from "./tools.ts";

const Name = z.string().min(1).max(256);
const Description = z.string().max(2048);
export const System = z.string().max(100_000);

const SkillParams = z.object({
  type: z.enum(["anthropic", "custom"]),
  skill_id: z.string().min(1),
  version: z.string().min(1).nullish(),
});
export const SkillList = z.array(SkillParams).max(20);

const rest = {
  description: Description.nullish(),
  system: System.nullish(),
  tools: ToolList.nullish(),
  mcp_servers: McpServerList.nullish(),
  skills: SkillList.nullish(),
  multiagent: z.unknown().optional(),
  execution_identity: z.looseObject({ type: z.string() }).nullish(),
};

export const CreateAgent = z.object({
  name: Name,
  model: ModelParams,
  metadata: Metadata.nullish(),
  ...rest,
});
export type CreateAgent = z.infer<typeof CreateAgent>;

export const UpdateAgent = z.object({
  name: Name.optional(),
  model: ModelParams.optional(),
  metadata: MetadataPatch.nullish(),
  version: z.int().min(1).optional(),
  ...rest,
});
export type UpdateAgent = z.infer<typeof UpdateAgent>;

export interface AgentSkill {
  readonly type: "anthropic" | "custom";
  readonly skill_id: string;
  /** A version's id, or `latest`. */
  readonly version: string;
}

/** What an agent is, beside its name in the catalog and its times. */
export interface AgentBody {
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
  readonly metadata: Metadata;
  readonly archived_at: string | null;
}

export interface Agent extends AgentBody {
  readonly id: string;
  readonly type: "agent";
  readonly created_at: string;
  readonly updated_at: string;
}

export function toAgent(stored: Stored<AgentBody>): Agent {
  return { id: stored.id, type: "agent", ...stored.body, ...toTimes(stored) };
}

export function createAgentBody(given: CreateAgent): AgentBody {
  assertSingle(given);
  return checked({
    version: 1,
    name: given.name,
    description: given.description || null,
    model: resolveModel(given.model),
    system: given.system || null,
    tools: resolveTools(given.tools ?? []),
    mcp_servers: given.mcp_servers ?? [],
    skills: resolveSkills(given.skills ?? []),
    multiagent: null,
    execution_identity: { type: "service_account" },
    metadata: toMetadata(given.metadata),
    archived_at: null,
  });
}

/** What is left out stays, null or nothing clears. The same body where nothing really changes. */
export function updateAgentBody(stored: AgentBody, given: UpdateAgent): AgentBody {
  if (stored.archived_at !== null) throw refuse("The agent is archived, so it cannot be updated.");
  if (given.version !== undefined && given.version !== stored.version)
    throw versionMoved(given.version, stored.version);
  assertSingle(given);
  const updated = checked({
    ...stored,
    name: given.name ?? stored.name,
    description: given.description === undefined ? stored.description : given.description || null,
    model: given.model === undefined ? stored.model : resolveModel(given.model, stored.model),
    system: given.system === undefined ? stored.system : given.system || null,
    tools: given.tools === undefined ? stored.tools : resolveTools(given.tools ?? []),
    mcp_servers: given.mcp_servers === undefined ? stored.mcp_servers : (given.mcp_servers ?? []),
    skills: given.skills === undefined ? stored.skills : resolveSkills(given.skills ?? []),
    metadata: patchMetadata(stored.metadata, given.metadata),
  });
  return isSame(updated, stored) ? stored : { ...updated, version: stored.version + 1 };
}

export function resolveSkills(given: z.infer<typeof SkillList>): AgentSkill[] {
  const ids = given.map(({ skill_id }) => skill_id);
  const twice = ids.find((id, at) => ids.indexOf(id) !== at);
  if (twice !== undefined) throw refuse(`skills: ${twice} is there twice.`);
  return given.map(({ type, skill_id, version }) => ({ type, skill_id, version: version ?? "latest" }));
}

function checked(body: AgentBody): AgentBody {
  assertToolsFit(body.tools, body.mcp_servers);
  return body;
}

function assertSingle({ multiagent, execution_identity }: Pick<CreateAgent, keyof typeof rest>): void {
  if (multiagent !== undefined && multiagent !== null) throw unsupported("multiagent: several agents are");
  if (execution_identity && execution_identity.type !== "service_account")
    throw unsupported(`execution_identity: ${execution_identity.type} is`);
}

function versionMoved(given: number, found: number): SluiceError {
  const detail = `version: the agent is at version ${found} and not at ${given}. Retrieve it again, and update what you find.`;
  return new SluiceError("version_conflict", detail, { given, found });
}

function isSame(one: AgentBody, other: AgentBody): boolean {
  return toComparable(one) === toComparable(other);
}

// Both were built by the same lines, so that equal ones have their keys in one order; metadata has not.
function toComparable({ metadata, ...body }: AgentBody): string {
  return JSON.stringify([body, Object.entries(metadata).sort(([a], [b]) => (a < b ? -1 : 1))]);
}
