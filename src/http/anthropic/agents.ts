import { z } from "zod";
import type { Document } from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import {
  type Agent,
  type AgentBody,
  type AgentSkill,
  CreateAgent,
  createAgentBody,
  toAgent,
  UpdateAgent,
  updateAgentBody,
} from "../../dialects/anthropic/resources/agent.ts";
import { refuse } from "../../dialects/anthropic/resources/refusal.ts";
import { toTimestamp } from "../../dialects/anthropic/resources/stored.ts";
import { createId } from "./ids.ts";
import { type Labels, madeOnce } from "./made-once.ts";
import * as params from "./query.ts";
import { assertReach } from "./reach.ts";
import type { Route } from "./route.ts";
import type { AnthropicServices } from "./services.ts";
import { toList } from "./shelf.ts";
import type { Shelves } from "./shelves.ts";

const Version = z
  .string()
  .regex(/^[1-9]\d{0,8}$/, "expected a whole number of at least 1")
  .transform(Number)
  .optional();

const ListAgents = z.object({
  limit: params.limitOf(20),
  page: params.page,
  include_archived: params.flag,
  ...params.createdAt,
});

const ListVersions = z.object({ limit: params.limitOf(20), page: params.page });

/** Every version stays readable: each is a document of its own, beside the one that changes. */
export function mountAgents(route: Route, services: AnthropicServices): void {
  const { catalog, shelves } = services;
  const { agents, agentVersions: versions } = shelves;

  route("POST", "/agents", { body: CreateAgent }, (call) => {
    const { owner, body: said } = call;
    const make = async (labels: Labels): Promise<Agent> => {
      const body = createAgentBody(said);
      assertReach.servers(owner, body.mcp_servers);
      await assertSkills(shelves, owner, body.skills);
      const id = createId("agent");
      const [agent] = await catalog.write(owner, [
        { op: "create", kind: agents.kind, id, body, labels },
        toVersion(id, body),
      ]);
      return toAgent(agent as Document<AgentBody>);
    };
    return madeOnce(services, call, { shelf: agents, said, make, tell: toAgent });
  });

  route("GET", "/agents", { query: ListAgents }, async ({ owner, query }) => {
    const filter = { archived: query.include_archived, created: params.toTimeRange(query) };
    return toList(await agents.page(owner, query, filter), toAgent);
  });

  route("GET", "/agents/:id", { query: z.object({ version: Version }) }, ({ owner, query, param }) =>
    readAgent(shelves, owner, { id: param("id"), version: query.version }),
  );

  // Made once: sent again, it would be refused for the version that it has made itself.
  route("POST", "/agents/:id", { body: UpdateAgent }, (call) => {
    const { owner, body: said, param } = call;
    const id = param("id");
    const make = async (labels: Labels): Promise<Agent> => {
      const updated = await agents.update(owner, id, async ({ body: stored }) => {
        const body = updateAgentBody(stored, said);
        if (body === stored) return undefined;
        assertReach.servers(owner, body.mcp_servers);
        if (said.skills) await assertSkills(shelves, owner, body.skills);
        return { replace: { body }, also: [{ ...toVersion(id, body), labels }] };
      });
      return toAgent(updated);
    };
    const tell = async (version: Document<AgentBody>) => toAgentOf(await agents.get(owner, id), version);
    return madeOnce(services, call, { shelf: versions, said, make, tell });
  });

  route("POST", "/agents/:id/archive", {}, async ({ owner, param }) => {
    const archived = await agents.update(owner, param("id"), ({ body }) => {
      if (body.archived_at !== null) return undefined;
      return { replace: { body: { ...body, archived_at: toTimestamp(Date.now()) }, archived: true } };
    });
    return toAgent(archived);
  });

  route("GET", "/agents/:id/versions", { query: ListVersions }, async ({ owner, query, param }) => {
    const agent = await agents.get(owner, param("id"));
    const page = await versions.page(owner, query, { parent: agent.id });
    return toList(page, (version) => toAgentOf(agent, version));
  });
}

/** An agent as it is, or as one of its versions was. */
export async function readAgent(
  { agents, agentVersions }: Shelves,
  owner: string,
  { id, version }: { id: string; version?: number | null | undefined },
): Promise<Agent> {
  const agent = await agents.get(owner, id);
  if (version === undefined || version === null || version === agent.body.version) return toAgent(agent);
  const found = await agentVersions.find(owner, `${id}.${version}`);
  if (!found) throw new SluiceError("not_found", `The agent ${id} has no version ${version}.`);
  return toAgentOf(agent, found);
}

function toVersion(agent: string, body: AgentBody) {
  return {
    op: "create",
    kind: "agent_version",
    id: `${agent}.${body.version}`,
    parent: agent,
    body,
  } as const;
}

/** A version is as old as its agent, and archived with it. */
function toAgentOf(agent: Document<AgentBody>, version: Document<AgentBody>): Agent {
  const { id, createdAt } = agent;
  const body = { ...version.body, archived_at: agent.body.archived_at };
  return toAgent({ id, createdAt, updatedAt: version.createdAt, body });
}

async function assertSkills(shelves: Shelves, owner: string, skills: readonly AgentSkill[]): Promise<void> {
  for (const { type, skill_id, version } of skills) {
    if (type !== "custom")
      throw refuse(`skills: ${skill_id} is not here. Only custom skills are; upload it as one.`);
    if (!(await shelves.skills.find(owner, skill_id))) throw refuse(`skills: there is no skill ${skill_id}.`);
    if (version === "latest") continue;
    const found = await shelves.skillVersions.find(owner, version);
    if (found?.parent !== skill_id) throw refuse(`skills: ${skill_id} has no version ${version}.`);
  }
}
