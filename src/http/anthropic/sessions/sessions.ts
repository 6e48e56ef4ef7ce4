import { randomUUID } from "node:crypto";
import type { Document } from "../../../catalog/port.ts";
import { SluiceError } from "../../../contract/index.ts";
import { patchMetadata, refuse, toTimestamp } from "../../../dialects/anthropic/resources/resource.ts";
import {
  type SessionBody,
  toSession,
  toStatus,
  UpdateSession,
} from "../../../dialects/anthropic/resources/session.ts";
import { toSettings, updateSessionAgent } from "../../../dialects/anthropic/resources/session-agent.ts";
import { removeOnce } from "../idempotency.ts";
import { readPage, type Stretch } from "../page.ts";
import { sessionOperations } from "../operations/sessions.ts";
import * as params from "../query.ts";
import type { Route, SharedServices, TenantScope } from "../route.ts";
import { assertReachable } from "../tenant-network.ts";
import { assertNoBudget, assertVaults, createSession } from "./create.ts";
import {
  assertNotRunning,
  discardSession,
  forgetSession,
  readOpenRecord,
  readRecord,
  settle,
  type SessionRecord,
} from "./record.ts";

/** How many documents are read at once for a filtered page. */
const STRIDE = 100;
/** The age of an unfinished creation that no client will resend. */
const ABANDONED_MS = 3_600_000;

export function mountSessions(route: Route, services: SharedServices): void {
  const { locks, collections } = services;
  const { sessions } = collections;

  route(sessionOperations.anthropicCreateSession, async (call) => toWire(await createSession(call)));

  route(sessionOperations.anthropicListSessions, async ({ scope, tenant, query }) => {
    const { order = "desc", limit, page, statuses } = query;
    const matchesNone = query.deployment_id !== undefined || query.memory_store_id !== undefined;
    const labels = {
      ...(query.agent_id !== undefined && { agent_id: query.agent_id }),
      ...(query.agent_version !== undefined && { agent_version: query.agent_version }),
    };
    const filter = { labels, archived: query.include_archived, created: params.toTimeRange(query) };
    const read = async ({ limit: wanted, order, after }: Stretch): Promise<Listed[]> => {
      const found: Listed[] = [];
      if (matchesNone) return found;
      for (let from = after; found.length < wanted;) {
        const documents = await sessions.list(tenant, { ...filter, order, after: from, limit: STRIDE });
        for (const document of documents) {
          const listed = await readListed(scope, document);
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

  route(sessionOperations.anthropicGetSession, async ({ scope, param }) =>
    toWire(await readRecord(scope, param("id"))),
  );

  route(sessionOperations.anthropicUpdateSession, async ({ scope, body: given, param }) =>
    // Locked: a patch applies to the result of the one before.
    locks.run(`update ${scope.tenant} ${param("id")}`, async () => {
      const record = await readOpenRecord(scope, param("id"));
      return toWire(await updateSession(scope, { record, given }));
    }),
  );

  route(sessionOperations.anthropicArchiveSession, async ({ scope, param }) =>
    locks.run(`update ${scope.tenant} ${param("id")}`, async () => {
      const record = await readRecord(scope, param("id"));
      return toWire(record.document?.archived ? record : await archiveSession(scope, record));
    }),
  );

  route(sessionOperations.anthropicDeleteSession, async ({ c, scope, param }) =>
    removeOnce(c, { id: param("id"), type: "session_deleted" }, async () => {
      const record = await readRecord(scope, param("id"));
      assertNotRunning(record, "deleted");
      await scope.engine.remove(record.session);
      await forgetSession(scope, record.session);
    }),
  );
}

type Listed = SessionRecord & { readonly document: Document<SessionBody> };

async function readListed(scope: TenantScope, document: Document<SessionBody>): Promise<Listed | undefined> {
  if (document.body.making) {
    const isAbandoned = Date.now() - document.updatedAt > ABANDONED_MS;
    if (isAbandoned) await discardSession(scope, document.id);
    return undefined;
  }
  try {
    const info = await scope.engine.info(document.id);
    return { session: document.id, info, body: await settle(scope, document), document };
  } catch (error) {
    if (error instanceof SluiceError && error.code === "session_not_found") return undefined;
    throw error;
  }
}

function toWire({ body, info, document }: SessionRecord): ReturnType<typeof toSession> {
  return toSession(body, info, document);
}

/**
 * Notes the change in the document, writes the event unless the session has ended, then completes the document. After
 * a crash, a repeated call continues.
 */
async function archiveSession(scope: TenantScope, record: SessionRecord): Promise<SessionRecord> {
  const { body, info, session } = record;
  const { title, metadata, agent, archived_at = null } = body;
  const at = archived_at ?? toTimestamp(Date.now());
  if (archived_at === null) assertNotRunning(record, "archived");
  if (archived_at === null && record.document && !info.ended) {
    const key = createUpdateKey();
    const pending = { key, change: { archived_at: at } };
    await rewrite(scope, { record, change: { title, metadata, agent, pending } });
    await scope.engine.update(session, { archivedAt: at }, { key });
  }
  const change = { title, metadata, agent, archived_at: at, pending: null };
  return rewrite(scope, { record, change });
}

async function updateSession(
  scope: TenantScope,
  { record, given }: { record: SessionRecord; given: UpdateSession },
): Promise<SessionRecord> {
  const { body, session } = record;
  assertNoBudget(given);
  if (given.vault_ids) await assertVaults(scope, given.vault_ids);
  const title = given.title === undefined ? body.title : given.title;
  const metadata = patchMetadata(body.metadata, given.metadata);
  const agent = given.agent ? updateSessionAgent(body.agent, given.agent) : body.agent;
  assertReachable.servers(scope.tenant, agent.mcp_servers);
  if (given.agent) assertNotRunning(record, "given other tools");
  const change = {
    ...(given.title === undefined ? {} : { title }),
    ...(given.metadata ? { metadata } : {}),
    ...(given.agent ? { agent, settings: toSettings(agent, body.config) } : {}),
  };
  try {
    if (Object.keys(change).length > 0) {
      const { settings: _, ...visible } = change;
      const key = createUpdateKey();
      const pending = { key, change: visible };
      const { title, metadata, agent } = body;
      if (record.document) await rewrite(scope, { record, change: { title, metadata, agent, pending } });
      await scope.engine.update(session, change, { key });
    }
  } catch (error) {
    const isBusy = error instanceof SluiceError && error.code === "session_busy";
    throw isBusy ? refuse(error.message) : error;
  }
  const vault_ids = given.vault_ids ?? body.vault_ids;
  return rewrite(scope, { record, change: { title, metadata, agent, vault_ids, pending: null } });
}

function createUpdateKey(): string {
  return `anthropic:update:${randomUUID()}`;
}

/** Changes the document, and returns the new record. */
async function rewrite(
  scope: TenantScope,
  { record, change }: { record: SessionRecord; change: Partial<SessionBody> },
): Promise<SessionRecord> {
  const { sessions } = scope.collections;
  if (!record.document) {
    const id = record.session;
    if (change.archived_at)
      throw refuse("A session of another dialect cannot be archived. Delete it instead.");
    return readRecord(scope, id);
  }
  const document = await sessions.update(scope.tenant, record.document.id, ({ body }) => ({
    replace: { body: { ...body, ...change }, ...(change.archived_at ? { archived: true } : {}) },
  }));
  const info = await scope.engine.info(record.session);
  return { session: record.session, info, body: document.body, document };
}
