import { z } from "zod";
import type { Document } from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import { toSessionId } from "../../dialects/anthropic/ids.ts";
import { patchMetadata, toMetadata } from "../../dialects/anthropic/resources/metadata.ts";
import { refuse, unsupported } from "../../dialects/anthropic/resources/refusal.ts";
import { toSessionAgent, updateSessionAgent } from "../../dialects/anthropic/resources/session-agent.ts";
import { toTimestamp } from "../../dialects/anthropic/resources/stored.ts";
import {
  CreateSession,
  type SessionBody,
  STATUSES,
  toSession,
  toStatus,
  UpdateSession,
} from "../../dialects/anthropic/session.ts";
import { toHarness, toSessionSpec, toSettings } from "../../dialects/anthropic/session-spec.ts";
import { readAgent } from "./agents.ts";
import { forgetCallbacks } from "./callbacks.ts";
import { createId } from "./ids.ts";
import * as params from "./query.ts";
import { readPage, type Stretch } from "./page.ts";
import { CreatedOnce } from "./resend.ts";
import type { Route } from "./route.ts";
import { send } from "./send.ts";
import type { AnthropicServices } from "./services.ts";
import {
  assertNotRunning,
  readOpenRecord,
  readRecord,
  settle,
  type SessionRecord,
} from "./session-record.ts";
import { mountResources } from "./session-resources.ts";
import { readSkills } from "./session-skills.ts";
import { queueWork } from "./work-queue.ts";

const ListSessions = z.object({
  agent_id: params.text,
  agent_version: params.text,
  deployment_id: params.text,
  memory_store_id: params.text,
  statuses: params.listOf(z.enum(STATUSES)),
  include_archived: params.flag,
  order: params.order,
  limit: params.limitOf(20),
  page: params.page,
  ...params.createdAt,
});

/** How many documents are looked at for one page's worth of a status. */
const STRIDE = 100;

export function mountSessions(route: Route, services: AnthropicServices): void {
  const { engine, locks, shelves } = services;
  const { sessions } = shelves;
  const created = new CreatedOnce();

  route("POST", "/sessions", { body: CreateSession }, async ({ c, owner, body }) =>
    created.run(c, owner, body, async () => {
      const record = await createSession(services, owner, body);
      return { id: record.session, answer: toWire(record) };
    }),
  );

  route("GET", "/sessions", { query: ListSessions }, async ({ owner, query }) => {
    const { order = "desc", limit, page, statuses } = query;
    const nowhere = query.deployment_id !== undefined || query.memory_store_id !== undefined;
    const labels = {
      ...(query.agent_id !== undefined && { agent_id: query.agent_id }),
      ...(query.agent_version !== undefined && { agent_version: query.agent_version }),
    };
    const filter = { labels, archived: query.include_archived, created: params.toTimeRange(query) };
    const read = async ({ limit: wanted, order, after }: Stretch): Promise<Listed[]> => {
      const found: Listed[] = [];
      if (nowhere) return found;
      for (let from = after; found.length < wanted;) {
        const documents = await sessions.list(owner, { ...filter, order, after: from, limit: STRIDE });
        for (const document of documents) {
          const listed = await toListed(services, document);
          if (listed && (statuses === undefined || statuses.includes(toStatus(listed.info))))
            found.push(listed);
          if (found.length === wanted) break;
        }
        if (documents.length < STRIDE) break;
        from = documents.at(-1)?.ordinal;
      }
      return found;
    };
    const request = { list: sessions.kind, order, limit, page };
    const { items, next_page, prev_page } = await readPage(request, read, ({ document }) => document.ordinal);
    return { data: items.map(toWire), next_page, prev_page };
  });

  route("GET", "/sessions/:id", {}, async ({ owner, param }) =>
    toWire(await readRecord(services, owner, param("id"))),
  );

  route("POST", "/sessions/:id", { body: UpdateSession }, async ({ owner, body: given, param }) =>
    // One after the other: a patch is made from what the one before has left.
    locks.run(`update ${param("id")}`, async () => {
      const record = await readOpenRecord(services, owner, param("id"));
      return toWire(await updateSession(services, owner, { record, given }));
    }),
  );

  route("POST", "/sessions/:id/archive", {}, async ({ owner, param }) => {
    const record = await readRecord(services, owner, param("id"));
    if (record.body.archived_at !== null) return toWire(record);
    assertNotRunning(record, "archived");
    const archived_at = toTimestamp(Date.now());
    return toWire(await rewrite(services, owner, { record, change: { archived_at } }));
  });

  route("DELETE", "/sessions/:id", {}, async ({ owner, param }) => {
    const record = await readRecord(services, owner, param("id"));
    assertNotRunning(record, "deleted");
    await engine.remove(record.session);
    const { document } = record;
    if (document) await forget(services, owner, document.id);
    await forgetCallbacks(services, record.session);
    return { id: toSessionId(record.session), type: "session_deleted" };
  });
}

/** The record, the session's own files, and whatever workers were wanted for. */
async function forget({ catalog, shelves }: AnthropicServices, owner: string, id: string): Promise<void> {
  const work = await shelves.work.list(owner, { labels: { session: id }, limit: 1000 });
  await catalog.write(owner, [
    { op: "remove", kind: shelves.sessions.kind, id, children: true },
    ...work.map((item) => ({ op: "remove", kind: shelves.work.kind, id: item.id }) as const),
  ]);
}

type Listed = SessionRecord & { readonly document: Document<SessionBody> };

async function toListed(
  services: AnthropicServices,
  document: Document<SessionBody>,
): Promise<Listed | undefined> {
  try {
    const info = await services.engine.info(document.id);
    return { session: document.id, info, body: await settle(services, document), document };
  } catch (error) {
    if (error instanceof SluiceError && error.code === "session_not_found") return undefined;
    throw error;
  }
}

export function toWire({ body, info, document }: SessionRecord): object {
  return toSession(body, info, document?.updatedAt);
}

/** All that can be refused is refused before there is anything. */
async function createSession(
  services: AnthropicServices,
  owner: string,
  given: CreateSession,
): Promise<SessionRecord> {
  const { catalog, engine, shelves } = services;
  assertNoBudget(given);
  const agent = await readAgent(shelves, owner, given.agent);
  if (agent.archived_at !== null) throw refuse(`agent: ${agent.id} is archived. Use another one.`);
  const environment = await shelves.environments.get(owner, given.environment_id);
  if (environment.body.archived_at !== null)
    throw refuse(`environment_id: ${environment.id} is archived. Use another one.`, "environment_archived");
  await assertVaults(services, owner, given.vault_ids ?? []);
  const { config } = environment.body;
  const snapshot = toSessionAgent(agent, given.agent);
  const harness = toHarness({ model: snapshot.model.id, metadata: agent.metadata }, services.defaultAgent);
  const metadata = toMetadata(given.metadata);
  const body: SessionBody = {
    agent: snapshot,
    environment_id: environment.id,
    config,
    title: given.title ?? null,
    metadata,
    vault_ids: given.vault_ids ?? [],
    resources: [],
    archived_at: null,
  };
  const id = createId("session");
  const resources = await mountResources.check(services, owner, given.resources ?? []);
  const skills = await readSkills(services, owner, snapshot.skills);
  const title = body.title === null ? {} : { title: body.title };
  const spec = toSessionSpec(snapshot, { harness, config, skills });
  await engine.create(id, { ...spec, ...title, metadata });
  const labels = { agent_id: agent.id, agent_version: String(snapshot.version) };
  try {
    await catalog.write(owner, [{ op: "create", kind: shelves.sessions.kind, id, body, labels }]);
    for (const resource of resources) await mountResources.add(services, owner, { session: id, resource });
    const events = given.initial_events ?? [];
    if (events.length > 0)
      await send(services, owner, { record: await readRecord(services, owner, id), events });
    if (config.type === "self_hosted")
      await queueWork(services, owner, { session: id, environment: environment.id });
  } catch (error) {
    // A session that could not begin as it was asked for is none.
    await engine.remove(id);
    await forget(services, owner, id).catch(() => {});
    throw error;
  }
  return readRecord(services, owner, id);
}

async function updateSession(
  services: AnthropicServices,
  owner: string,
  { record, given }: { record: SessionRecord; given: UpdateSession },
): Promise<SessionRecord> {
  const { body, session } = record;
  assertNoBudget(given);
  if (given.vault_ids) await assertVaults(services, owner, given.vault_ids);
  const title = given.title === undefined ? body.title : given.title;
  const metadata = patchMetadata(body.metadata, given.metadata);
  const agent = given.agent ? updateSessionAgent(body.agent, given.agent) : body.agent;
  if (given.agent) assertNotRunning(record, "given other tools");
  const change = {
    ...(given.title === undefined ? {} : { title }),
    ...(given.metadata ? { metadata } : {}),
    ...(given.agent ? { agent, settings: toSettings(agent, body.config) } : {}),
  };
  try {
    if (Object.keys(change).length > 0) {
      const { settings: _, ...told } = change;
      const pending = { after: record.info.eventCount, change: told };
      const { title, metadata, agent } = body;
      if (record.document)
        await rewrite(services, owner, { record, change: { title, metadata, agent, pending } });
      await services.engine.update(session, change);
    }
  } catch (error) {
    const isBusy = error instanceof SluiceError && error.code === "session_busy";
    throw isBusy ? refuse(error.message) : error;
  }
  const vault_ids = given.vault_ids ?? body.vault_ids;
  return rewrite(services, owner, { record, change: { title, metadata, agent, vault_ids, pending: null } });
}

/** The document follows what the log says by now. */
async function rewrite(
  services: AnthropicServices,
  owner: string,
  { record, change }: { record: SessionRecord; change: Partial<SessionBody> },
): Promise<SessionRecord> {
  const { sessions } = services.shelves;
  if (!record.document) {
    const id = record.session;
    if (change.archived_at)
      throw refuse("A session that was made through another dialect cannot be archived.");
    return readRecord(services, owner, id);
  }
  const document = await sessions.update(owner, record.document.id, ({ body }) => ({
    replace: { body: { ...body, ...change }, ...(change.archived_at ? { archived: true } : {}) },
  }));
  const info = await services.engine.info(record.session);
  return { session: record.session, info, body: document.body, document };
}

async function assertVaults(
  { shelves }: AnthropicServices,
  owner: string,
  ids: readonly string[],
): Promise<void> {
  for (const id of ids) {
    const vault = await shelves.vaults.get(owner, id);
    if (vault.body.archived_at !== null) throw refuse(`vault_ids: ${id} is archived.`);
  }
}

function assertNoBudget({ budget }: { budget?: unknown }): void {
  if (budget !== undefined && budget !== null) throw unsupported("budget: limits of cost are");
}
