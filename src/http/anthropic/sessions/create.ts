import type { Document } from "../../../catalog/port.ts";
import { isOpenSandbox, type Skill } from "../../../contract/index.ts";
import type { AgentSkill } from "../../../dialects/anthropic/resources/agent.ts";
import { refuse, toMetadata, unsupported } from "../../../dialects/anthropic/resources/resource.ts";
import type { CreateSession, SessionBody } from "../../../dialects/anthropic/resources/session.ts";
import {
  toHarness,
  toSessionAgent,
  toSessionSpec,
} from "../../../dialects/anthropic/resources/session-agent.ts";
import {
  type SkillFile,
  type SkillVersionBody,
  toSkillContent,
} from "../../../dialects/anthropic/resources/skill.ts";
import { isWorkspace } from "../../auth.ts";
import { createId } from "../dialect.ts";
import { send } from "../events/send.ts";
import { type Labels, createOnce } from "../idempotency.ts";
import { readAgent } from "../resources/agents.ts";
import { modeOf, readSkillFile } from "../resources/skills.ts";
import type { AnthropicCall, TenantScope } from "../route.ts";
import { assertReachable } from "../tenant-network.ts";
import { queueWork } from "../work/queue.ts";
import { discardSession, forgetSession, readRecord, type SessionRecord } from "./record.ts";
import { sessionResources } from "./resources.ts";

/**
 * The document is written first, marked as unfinished, and every later step can be repeated. So a resend continues a
 * creation that a crash has cut short.
 */
export function createSession(call: AnthropicCall<undefined, CreateSession>): Promise<SessionRecord> {
  const { scope, body: input } = call;
  const { engine, collections, tenant } = scope;
  const begin = async (labels: Labels): Promise<SessionRecord> => {
    const { body, spec, references } = await planSession(scope, input);
    const id = createId("session");
    const document = { body: { ...body, making: true }, labels: { ...references, ...labels } };
    await collections.sessions.create(tenant, { id, ...document });
    return orDiscard(scope, id, async () => {
      await engine.create(id, spec, { tenant });
      return complete(scope, { id, input });
    });
  };
  const resume = async ({ id, body, labels }: Document<SessionBody>): Promise<SessionRecord> => {
    if (!body.making) return readRecord(scope, id);
    if (await engine.log.find(id)) return orDiscard(scope, id, () => complete(scope, { id, input }));
    await forgetSession(scope, id);
    return begin({ request: labels["request"] ?? "" });
  };
  return createOnce(call, { collection: collections.sessions, input, create: begin, toAnswer: resume });
}

/** Refuses a wrong request before anything is created. */
async function planSession(scope: TenantScope, input: CreateSession) {
  const { engine, collections, tenant } = scope;
  assertNoBudget(input);
  if (isWorkspace(tenant) && isOpenSandbox(await engine.defaultSandbox()))
    throw refuse(
      "This server has no isolated sandbox, so it creates no session for a workspace. Start it with bwrap or docker.",
    );
  const agent = await readAgent(collections, tenant, input.agent);
  if (agent.archived_at !== null) throw refuse(`agent: ${agent.id} is archived. Use another one.`);
  const environment = await collections.environments.get(tenant, input.environment_id);
  if (environment.body.archived_at !== null)
    throw refuse(`environment_id: ${environment.id} is archived. Use another one.`, "environment_archived");
  await assertVaults(scope, input.vault_ids ?? []);
  const { config } = environment.body;
  const snapshot = toSessionAgent(agent, input.agent);
  // Checked again: an agent or an environment may be older than the rules.
  assertReachable.environment(tenant, config);
  assertReachable.servers(tenant, snapshot.mcp_servers);
  const harness = toHarness({ model: snapshot.model.id, metadata: agent.metadata }, scope.defaultAgent);
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
  await sessionResources.check(scope, input.resources ?? []);
  const skills = await readSkills(scope, snapshot.skills);
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
  scope: TenantScope,
  { id, input }: { id: string; input: CreateSession },
): Promise<SessionRecord> {
  const { sessions } = scope.collections;
  const { body } = await sessions.get(scope.tenant, id);
  await writeSkillFiles(scope, { session: id, given: body.agent.skills });
  const wanted = input.resources ?? [];
  for (let index = body.resources.length; index < wanted.length; index += 1) {
    const resource = wanted[index];
    if (resource) await sessionResources.add(scope, { session: id, resource, index });
  }
  const events = input.initial_events ?? [];
  if (events.length > 0) {
    const record = await readRecord(scope, id);
    await send(scope, { record, events, key: "initial_events" });
  }
  if (body.config.type === "self_hosted")
    await queueWork(scope, { session: id, environment: body.environment_id });
  await sessions.update(scope.tenant, id, ({ body: made }) => ({
    replace: { body: { ...made, making: false } },
  }));
  return readRecord(scope, id);
}

/** Discards a session whose creation fails. */
async function orDiscard<T>(scope: TenantScope, id: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await discardSession(scope, id).catch(() => {});
    throw error;
  }
}

export async function assertVaults(
  { collections, tenant }: TenantScope,
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

/** The skills of an agent for a new session; `latest` is resolved now. */
async function readSkills(scope: TenantScope, given: readonly AgentSkill[]): Promise<Skill[]> {
  const skills: Skill[] = [];
  for (const { main, version } of await findVersions(scope, given)) {
    const { name, description } = version.body;
    if (skills.some((other) => other.name === name))
      throw refuse(
        `skills: two skills are named ${name}, and the agent could not distinguish them. Leave one out.`,
      );
    const text = new TextDecoder().decode(await readSkillFile(scope.catalog, main));
    skills.push({ name, description, content: toSkillContent(text) });
  }
  return skills;
}

/** Writes the further files of skills into the agent's skills folder. */
async function writeSkillFiles(
  scope: TenantScope,
  { session, given }: { session: string; given: readonly AgentSkill[] },
): Promise<void> {
  const { catalog, engine } = scope;
  const { agent } = await engine.info(session);
  const folder = engine.skillsFolder(agent);
  if (folder === undefined) return;
  for (const { main, version } of await findVersions(scope, given)) {
    const { name, files } = version.body;
    for (const file of files) {
      if (file === main) continue;
      const content = await readSkillFile(catalog, file);
      const target = await engine.files(session);
      await target.write(`${folder}/${name}/${file.path}`, content, { mode: modeOf(content) });
    }
  }
}

interface Found {
  readonly version: Document<SkillVersionBody>;
  readonly main: SkillFile;
}

async function findVersions(
  { collections, tenant }: TenantScope,
  given: readonly AgentSkill[],
): Promise<Found[]> {
  const all: Found[] = [];
  for (const { skill_id: id, version: wanted } of given) {
    const skill = await collections.skills.find(tenant, id);
    const named = wanted === "latest" ? skill?.body.latest_version_id : wanted;
    const version = named === undefined ? undefined : await collections.skillVersions.find(tenant, named);
    const main = version?.body.files.find(({ path }) => path === "SKILL.md");
    if (!version || !main || version.parent !== id)
      throw refuse(`skills: the version ${wanted} of ${id} was deleted. Give the agent another version.`);
    all.push({ version, main });
  }
  return all;
}
