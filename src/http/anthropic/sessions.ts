import { z } from "zod";
import type { Document } from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import { patchMetadata } from "../../dialects/anthropic/resources/metadata.ts";
import { refuse } from "../../dialects/anthropic/resources/refusal.ts";
import { updateSessionAgent } from "../../dialects/anthropic/resources/session-agent.ts";
import { toTimestamp } from "../../dialects/anthropic/resources/stored.ts";
import {
  CreateSession,
  type SessionBody,
  STATUSES,
  toSession,
  toStatus,
  UpdateSession,
} from "../../dialects/anthropic/session.ts";
import { toSettings } from "../../dialects/anthropic/session-spec.ts";
import * as params from "./query.ts";
import { readPage, type Stretch } from "./page.ts";
import { assertReach } from "./reach.ts";
import { removedOnce } from "./resend.ts";
import type { Route } from "./route.ts";
import type { AnthropicServices } from "./services.ts";
import { createSession } from "./session-creation.ts";
import {
  assertNotRunning,
  discardSession,
  forgetSession,
  readOpenRecord,
  readRecord,
  settle,
  type SessionRecord,
} from "./session-record.ts";
import { assertNoBudget, assertVaults } from "./session-wishes.ts";

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
/** Nobody sends a creation again that was cut short so long ago. */
const ABANDONED_MS = 3_600_000;

export function mountSessions(route: Route, services: AnthropicServices): void {
  const { engine, locks, shelves } = services;
  const { sessions } = shelves;

  route("POST", "/sessions", { body: CreateSession }, async (call) =>
    toWire(await createSession(services, call)),
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
          const listed = await toListed(services, owner, document);
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

  route("POST", "/sessions/:id/archive", {}, async ({ owner, param }) =>
    locks.run(`update ${param("id")}`, async () => {
      const record = await readRecord(services, owner, param("id"));
      return toWire(record.document?.archived ? record : await archiveSession(services, owner, record));
    }),
  );

  route("DELETE", "/sessions/:id", {}, async ({ c, owner, param }) =>
    removedOnce(c, { id: param("id"), type: "session_deleted" }, async () => {
      const record = await readRecord(services, owner, param("id"));
      assertNotRunning(record, "deleted");
      await engine.remove(record.session);
      await forgetSession(services, owner, record.session);
    }),
  );
}

type Listed = SessionRecord & { readonly document: Document<SessionBody> };

async function toListed(
  services: AnthropicServices,
  owner: string,
  document: Document<SessionBody>,
): Promise<Listed | undefined> {
  if (document.body.making) {
    const isAbandoned = Date.now() - document.updatedAt > ABANDONED_MS;
    if (isAbandoned) await discardSession(services, owner, document.id);
    return undefined;
  }
  try {
    const info = await services.engine.info(document.id);
    return { session: document.id, info, body: await settle(services, document), document };
  } catch (error) {
    if (error instanceof SluiceError && error.code === "session_not_found") return undefined;
    throw error;
  }
}

export function toWire({ body, info, document }: SessionRecord): object {
  return toSession(body, info, document);
}

/** It is an event first, where there can still be one; a document that did not come to say so does it now. */
async function archiveSession(
  services: AnthropicServices,
  owner: string,
  record: SessionRecord,
): Promise<SessionRecord> {
  const { body, info, session } = record;
  const { title, metadata, agent, archived_at = null } = body;
  const at = archived_at ?? toTimestamp(Date.now());
  if (archived_at === null) assertNotRunning(record, "archived");
  if (archived_at === null && record.document && !info.ended) {
    const pending = { after: info.eventCount, change: { archived_at: at } };
    await rewrite(services, owner, { record, change: { title, metadata, agent, pending } });
    await services.engine.update(session, { archivedAt: at });
  }
  const change = { title, metadata, agent, archived_at: at, pending: null };
  return rewrite(services, owner, { record, change });
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
  assertReach.servers(owner, agent.mcp_servers);
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
