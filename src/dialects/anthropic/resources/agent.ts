import type { BetaManagedAgentsAgent } from "@anthropic-ai/sdk/resources/beta/agents";
import { z } from "zod";
import { SluiceError } from "../../../contract/index.ts";
import {
  type Immutable,
  Metadata,
  MetadataPatch,
  patchMetadata,
  refuse,
  type Resource,
  type Stored,
  toMetadata,
  toResource,
  unsupported,
} from "./resource.ts";
import { assertToolsFit, type McpServer, McpServerList, resolveTools, type Tool, ToolList } from "./tools.ts";

const LEVELS = ["low", "medium", "high", "xhigh", "max"] as const;
const Level = z.enum(LEVELS);

/** A model by name, or with settings. */
export const ModelParams = z.union([
  z.string().min(1).max(256),
  z.object({
    id: z.string().min(1).max(256),
    effort: z
      .union([Level, z.object({ type: Level })])
      .transform((effort) => (typeof effort === "string" ? { type: effort } : effort))
      .nullish(),
    inference_geo: z.string().nullish(),
    speed: z.enum(["standard", "fast"]).nullish(),
  }),
]);
export type ModelParams = z.infer<typeof ModelParams>;

export interface Model {
  readonly id: string;
  readonly effort?: { readonly type: (typeof LEVELS)[number] };
  readonly inference_geo?: string;
  readonly speed: "standard" | "fast";
}

/** A new model replaces the old one as a whole, but an absent effort keeps its value. */
export function resolveModel(given: ModelParams, before?: Model): Model {
  const { id, effort, inference_geo, speed } = typeof given === "string" ? { id: given } : given;
  const kept = effort === undefined ? before?.effort : (effort ?? undefined);
  return {
    id,
    ...(kept && { effort: kept }),
    ...(inference_geo && { inference_geo }),
    speed: speed ?? "standard",
  };
}

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
  /** The id of a version, or `latest`. */
  readonly version: string;
}

/** An agent without its id and times. */
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

export type Agent = Resource<"agent", AgentBody>;

export function toAgent(stored: Stored<AgentBody>): Agent {
  return toResource("agent", stored) satisfies Immutable<BetaManagedAgentsAgent>;
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

/** An absent field stays; null or an empty value clears it. Returns the same body if nothing changes. */
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
  if (twice !== undefined) throw refuse(`skills: ${twice} appears twice. Leave one out.`);
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
  const detail = `version: the agent is at version ${found} and not at ${given}. Retrieve the agent again and update that version.`;
  return new SluiceError("version_conflict", detail, { given, found });
}

function isSame(one: AgentBody, other: AgentBody): boolean {
  return toComparable(one) === toComparable(other);
}

// The same code builds both bodies, so equal ones have equal key order, except in metadata.
function toComparable({ metadata, ...body }: AgentBody): string {
  return JSON.stringify([body, Object.entries(metadata).sort(([a], [b]) => (a < b ? -1 : 1))]);
}
