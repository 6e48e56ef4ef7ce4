import type { Document } from "../../../catalog/port.ts";
import { refuse, toMetadata, unsupported } from "../../../dialects/anthropic/resources/resource.ts";
import {
  toHarness,
  toSessionAgent,
  toSessionSpec,
} from "../../../dialects/anthropic/resources/session-agent.ts";
import type { CreateSession, SessionBody } from "../../../dialects/anthropic/resources/session.ts";
import { isWorkspace } from "../../auth.ts";
import { send } from "../events/send.ts";
import { createId } from "../ids.ts";
import { assertReachable } from "../tenant-network.ts";
import { type Labels, createOnce } from "../idempotency.ts";
import { readAgent } from "../resources/agents.ts";
import type { AnthropicCall, AnthropicServices } from "../route.ts";
import { queueWork } from "../work/queue.ts";
import { discardSession, forgetSession, readRecord, type SessionRecord } from "./record.ts";
import { sessionResources } from "./resources.ts";
import { writeSkillFiles, readSkills } from "./skills.ts";

/**
 * The document is written first, marked as unfinished, and every later step can be repeated. So a resend continues a
 * creation that a crash has cut short.
 */
export function createSession(
  services: AnthropicServices,
  call: AnthropicCall<undefined, CreateSession>,
): Promise<SessionRecord> {
  const { tenant, body: input } = call;
  const { catalog, engine, collections } = services;
  const begin = async (labels: Labels): Promise<SessionRecord> => {
    const { body, spec, references } = await planSession(services, tenant, input);
    const id = createId("session");
    const document = { body: { ...body, making: true }, labels: { ...references, ...labels } };
    await catalog.write(tenant, [{ op: "create", kind: collections.sessions.kind, id, ...document }]);
    return orDiscard(services, tenant, id, async () => {
      await engine.create(id, spec, { tenant });
      return complete(services, tenant, { id, input });
    });
  };
  const resume = async ({ id, body, labels }: Document<SessionBody>): Promise<SessionRecord> => {
    if (!body.making) return readRecord(services, tenant, id);
    if (await engine.log.find(id))
      return orDiscard(services, tenant, id, () => complete(services, tenant, { id, input }));
    await forgetSession(services, tenant, id);
    return begin({ request: labels["request"] ?? "" });
  };
  return createOnce(services, call, {
    collection: collections.sessions,
    input,
    create: begin,
    toAnswer: resume,
  });
}

/** Refuses a wrong request before anything is created. */
async function planSession(services: AnthropicServices, tenant: string, input: CreateSession) {
  const { engine, collections } = services;
  assertNoBudget(input);
  if (isWorkspace(tenant) && (await engine.defaultSandbox()) === "local")
    throw refuse(
      "This server has no isolated sandbox, so it creates no session for a workspace. Start it with bwrap or docker.",
    );
  const agent = await readAgent(collections, tenant, input.agent);
  if (agent.archived_at !== null) throw refuse(`agent: ${agent.id} is archived. Use another one.`);
  const environment = await collections.environments.get(tenant, input.environment_id);
  if (environment.body.archived_at !== null)
    throw refuse(`environment_id: ${environment.id} is archived. Use another one.`, "environment_archived");
  await assertVaults(services, tenant, input.vault_ids ?? []);
  const { config } = environment.body;
  const snapshot = toSessionAgent(agent, input.agent);
  // Checked again: an agent or an environment may be older than the rules.
  assertReachable.environment(tenant, config);
  assertReachable.servers(tenant, snapshot.mcp_servers);
  const harness = toHarness({ model: snapshot.model.id, metadata: agent.metadata }, services.defaultAgent);
  const metadata = toMetadata(input.metadata);
  const body: SessionBody = {
    agent: snapshot,
    environment_id: environment.id,
    config,
    title: input.title ?? null,
    metadata,
    vault_ids: input.vault_ids ?? [],
    resources: [],
    archived_at: null,
  };
  await sessionResources.check(services, tenant, input.resources ?? []);
  const skills = await readSkills(services, tenant, snapshot.skills);
  const title = body.title === null ? {} : { title: body.title };
  const spec = { ...toSessionSpec(snapshot, { harness, config, skills }), ...title, metadata };
  const references = {
    agent_id: agent.id,
    agent_version: String(snapshot.version),
    environment_id: environment.id,
  };
  return { body, spec, references };
}

/** Takes the steps of the creation that are still missing. */
async function complete(
  services: AnthropicServices,
  tenant: string,
  { id, input }: { id: string; input: CreateSession },
): Promise<SessionRecord> {
  const { sessions } = services.collections;
  const { body } = await sessions.get(tenant, id);
  await writeSkillFiles(services, tenant, { session: id, given: body.agent.skills });
  const wanted = input.resources ?? [];
  for (let index = body.resources.length; index < wanted.length; index += 1) {
    const resource = wanted[index];
    if (resource) await sessionResources.add(services, tenant, { session: id, resource, index });
  }
  const events = input.initial_events ?? [];
  if (events.length > 0) {
    const record = await readRecord(services, tenant, id);
    await send(services, tenant, { record, events, key: "initial_events" });
  }
  if (body.config.type === "self_hosted")
    await queueWork(services, tenant, { session: id, environment: body.environment_id });
  await sessions.update(tenant, id, ({ body: made }) => ({ replace: { body: { ...made, making: false } } }));
  return readRecord(services, tenant, id);
}

/** Discards a session whose creation fails. */
async function orDiscard<T>(
  services: AnthropicServices,
  tenant: string,
  id: string,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await discardSession(services, tenant, id).catch(() => {});
    throw error;
  }
}

export async function assertVaults(
  { collections }: AnthropicServices,
  tenant: string,
  ids: readonly string[],
): Promise<void> {
  for (const id of ids) {
    const vault = await collections.vaults.get(tenant, id);
    if (vault.body.archived_at !== null) throw refuse(`vault_ids: ${id} is archived.`);
  }
}

export function assertNoBudget({ budget }: { budget?: unknown }): void {
  if (budget !== undefined && budget !== null) throw unsupported("budget: limits of cost are");
}
