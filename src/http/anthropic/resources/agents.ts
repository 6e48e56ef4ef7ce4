import type { Document } from "../../../catalog/port.ts";
import { SluiceError } from "../../../contract/index.ts";
import {
  type Agent,
  type AgentBody,
  type AgentSkill,
  createAgentBody,
  toAgent,
  updateAgentBody,
} from "../../../dialects/anthropic/resources/agent.ts";
import { refuse } from "../../../dialects/anthropic/resources/resource.ts";
import { type Collections, toArchived, toList } from "../collections.ts";
import { createId } from "../dialect.ts";
import { type Labels, createOnce } from "../idempotency.ts";
import { agentOperations } from "../operations/agents.ts";
import * as params from "../query.ts";
import type { Route, SharedServices } from "../route.ts";
import { assertReachable } from "../tenant-network.ts";

/** Every version stays readable: each one has its own document, besides that of the agent. */
export function mountAgents(route: Route, services: SharedServices): void {
  const { collections } = services;
  const { agents, agentVersions: versions } = collections;

  route(agentOperations.anthropicCreateAgent, (call) => {
    const { tenant, body: input } = call;
    const create = async (labels: Labels): Promise<Agent> => {
      const body = createAgentBody(input);
      assertReachable.servers(tenant, body.mcp_servers);
      await assertSkills(collections, tenant, body.skills);
      const id = createId("agent");
      return toAgent(await agents.create(tenant, { id, body, labels }, [toVersion(id, body)]));
    };
    return createOnce(call, { collection: agents, input, create, toAnswer: toAgent });
  });

  route(agentOperations.anthropicListAgents, async ({ tenant, query }) => {
    const filter = { archived: query.include_archived, created: params.toTimeRange(query) };
    return toList(await agents.page(tenant, query, filter), toAgent);
  });

  route(agentOperations.anthropicGetAgent, ({ tenant, query, param }) =>
    readAgent(collections, tenant, { id: param("id"), version: query.version }),
  );

  // An update creates a version. Without `createOnce`, a resend would be refused, as the version is no longer the same.
  route(agentOperations.anthropicUpdateAgent, (call) => {
    const { tenant, body: input, param } = call;
    const id = param("id");
    const create = async (labels: Labels): Promise<Agent> => {
      const updated = await agents.update(tenant, id, async ({ body: stored }) => {
        const body = updateAgentBody(stored, input);
        if (body === stored) return undefined;
        assertReachable.servers(tenant, body.mcp_servers);
        if (input.skills) await assertSkills(collections, tenant, body.skills);
        return { replace: { body }, also: [{ ...toVersion(id, body), labels }] };
      });
      return toAgent(updated);
    };
    const toAnswer = async (version: Document<AgentBody>) => toAgentOf(await agents.get(tenant, id), version);
    return createOnce(call, { collection: versions, input, create, toAnswer });
  });

  route(agentOperations.anthropicArchiveAgent, async ({ tenant, param }) =>
    toAgent(await agents.update(tenant, param("id"), ({ body }) => toArchived(body))),
  );

  route(agentOperations.anthropicListAgentVersions, async ({ tenant, query, param }) => {
    const agent = await agents.get(tenant, param("id"));
    const page = await versions.page(tenant, query, { parent: agent.id });
    return toList(page, (version) => toAgentOf(agent, version));
  });
}

/** The current agent, or one of its versions. */
export async function readAgent(
  { agents, agentVersions }: Collections,
  tenant: string,
  { id, version }: { id: string; version?: number | null | undefined },
): Promise<Agent> {
  const agent = await agents.get(tenant, id);
  if (version === undefined || version === null || version === agent.body.version) return toAgent(agent);
  const found = await agentVersions.find(tenant, `${id}.${version}`);
  if (!found) throw new SluiceError("not_found", `The agent ${id} has no version ${version}.`);
  return toAgentOf(agent, found);
}

function toVersion(agent: string, body: AgentBody) {
  const id = `${agent}.${body.version}`;
  return { op: "create", kind: "agent_version", id, parent: agent, body } as const;
}

/** A version has the creation time of its agent, and is archived with it. */
function toAgentOf(agent: Document<AgentBody>, version: Document<AgentBody>): Agent {
  const { id, createdAt } = agent;
  const body = { ...version.body, archived_at: agent.body.archived_at };
  return toAgent({ id, createdAt, updatedAt: version.createdAt, body });
}

async function assertSkills(
  collections: Collections,
  tenant: string,
  skills: readonly AgentSkill[],
): Promise<void> {
  for (const { type, skill_id, version } of skills) {
    if (type !== "custom")
      throw refuse(`skills: ${skill_id} is not here. Only custom skills are; upload it as one.`);
    if (!(await collections.skills.find(tenant, skill_id)))
      throw refuse(`skills: there is no skill ${skill_id}.`);
    if (version === "latest") continue;
    const found = await collections.skillVersions.find(tenant, version);
    if (found?.parent !== skill_id) throw refuse(`skills: ${skill_id} has no version ${version}.`);
  }
}
