import type { Document } from "../../catalog/port.ts";
import { toMetadata } from "../../dialects/anthropic/resources/metadata.ts";
import { refuse } from "../../dialects/anthropic/resources/refusal.ts";
import { toSessionAgent } from "../../dialects/anthropic/resources/session-agent.ts";
import type { CreateSession, SessionBody } from "../../dialects/anthropic/session.ts";
import { toHarness, toSessionSpec } from "../../dialects/anthropic/session-spec.ts";
import { isTenant } from "../auth.ts";
import { readAgent } from "./agents.ts";
import { createId } from "./ids.ts";
import { type Labels, madeOnce } from "./made-once.ts";
import { assertReach } from "./reach.ts";
import type { AnthropicCall } from "./route.ts";
import { send } from "./send.ts";
import type { AnthropicServices } from "./services.ts";
import { discardSession, forgetSession, readRecord, type SessionRecord } from "./session-record.ts";
import { mountResources } from "./session-resources.ts";
import { assertNoBudget, assertVaults } from "./session-wishes.ts";
import { placeSkillFiles, readSkills } from "./session-skills.ts";
import { queueWork } from "./work-queue.ts";

/**
 * The document comes first and says that the session is being made; each step behind it is one that can be taken
 * again. So a creation that was cut short goes on where it stood when it is sent again.
 */
export function createSession(
  services: AnthropicServices,
  call: AnthropicCall<undefined, CreateSession>,
): Promise<SessionRecord> {
  const { owner, body: said } = call;
  const { catalog, engine, shelves } = services;
  const begin = async (labels: Labels): Promise<SessionRecord> => {
    const { body, spec, known } = await planSession(services, owner, said);
    const id = createId("session");
    const document = { body: { ...body, making: true }, labels: { ...known, ...labels } };
    await catalog.write(owner, [{ op: "create", kind: shelves.sessions.kind, id, ...document }]);
    return orNothing(services, owner, id, async () => {
      await engine.create(id, spec);
      return complete(services, owner, { id, said });
    });
  };
  const resume = async ({ id, body, labels }: Document<SessionBody>): Promise<SessionRecord> => {
    if (!body.making) return readRecord(services, owner, id);
    if (await engine.log.find(id))
      return orNothing(services, owner, id, () => complete(services, owner, { id, said }));
    await forgetSession(services, owner, id);
    return begin({ request: labels["request"] ?? "" });
  };
  return madeOnce(services, call, { shelf: shelves.sessions, said, make: begin, tell: resume });
}

/** All that can be refused is refused before there is anything. */
async function planSession(services: AnthropicServices, owner: string, said: CreateSession) {
  const { engine, shelves } = services;
  assertNoBudget(said);
  if (isTenant(owner) && (await engine.defaultSandbox()) === "local")
    throw refuse(
      "This server has no sandbox that would keep workspaces apart, so it makes no session for one.",
    );
  const agent = await readAgent(shelves, owner, said.agent);
  if (agent.archived_at !== null) throw refuse(`agent: ${agent.id} is archived. Use another one.`);
  const environment = await shelves.environments.get(owner, said.environment_id);
  if (environment.body.archived_at !== null)
    throw refuse(`environment_id: ${environment.id} is archived. Use another one.`, "environment_archived");
  await assertVaults(services, owner, said.vault_ids ?? []);
  const { config } = environment.body;
  const snapshot = toSessionAgent(agent, said.agent);
  // Again: an agent or an environment may be older than the rules.
  assertReach.environment(owner, config);
  assertReach.servers(owner, snapshot.mcp_servers);
  const harness = toHarness({ model: snapshot.model.id, metadata: agent.metadata }, services.defaultAgent);
  const metadata = toMetadata(said.metadata);
  const body: SessionBody = {
    agent: snapshot,
    environment_id: environment.id,
    config,
    title: said.title ?? null,
    metadata,
    vault_ids: said.vault_ids ?? [],
    resources: [],
    archived_at: null,
  };
  await mountResources.check(services, owner, said.resources ?? []);
  const skills = await readSkills(services, owner, snapshot.skills);
  const title = body.title === null ? {} : { title: body.title };
  const spec = { ...toSessionSpec(snapshot, { harness, config, skills }), ...title, metadata };
  const known = {
    agent_id: agent.id,
    agent_version: String(snapshot.version),
    environment_id: environment.id,
  };
  return { body, spec, known };
}

/** What is there already is not done again. */
async function complete(
  services: AnthropicServices,
  owner: string,
  { id, said }: { id: string; said: CreateSession },
): Promise<SessionRecord> {
  const { sessions } = services.shelves;
  const { body } = await sessions.get(owner, id);
  await placeSkillFiles(services, owner, { session: id, given: body.agent.skills });
  const wanted = said.resources ?? [];
  for (let place = body.resources.length; place < wanted.length; place += 1) {
    const resource = wanted[place];
    if (resource) await mountResources.add(services, owner, { session: id, resource, place });
  }
  const events = said.initial_events ?? [];
  if (events.length > 0) {
    const record = await readRecord(services, owner, id);
    await send(services, owner, { record, events, key: "initial_events" });
  }
  if (body.config.type === "self_hosted")
    await queueWork(services, owner, { session: id, environment: body.environment_id });
  await sessions.update(owner, id, ({ body: made }) => ({ replace: { body: { ...made, making: false } } }));
  return readRecord(services, owner, id);
}

/** A session that could not begin as it was asked for is none. */
async function orNothing<T>(
  services: AnthropicServices,
  owner: string,
  id: string,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await discardSession(services, owner, id).catch(() => {});
    throw error;
  }
}
