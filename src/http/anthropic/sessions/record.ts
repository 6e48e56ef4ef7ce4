import type { Document } from "../../../catalog/port.ts";
import { isOpenSandbox, type SessionInfo, type SessionSpec, SluiceError } from "../../../contract/index.ts";
import { fromSessionId } from "../../../dialects/anthropic/ids.ts";
import { refuse } from "../../../dialects/anthropic/resources/resource.ts";
import { type SessionBody, toStatus } from "../../../dialects/anthropic/resources/session.ts";
import { DEFAULT_TENANT, isWorkspace, SYSTEM_TENANT } from "../../auth.ts";
import type { TenantScope } from "../route.ts";

/** A session of this dialect: its state in the log, and its document. */
export interface SessionRecord {
  /** The id in the log. */
  readonly session: string;
  readonly info: SessionInfo;
  readonly body: SessionBody;
  /** Absent in a session of another dialect. */
  readonly document?: Document<SessionBody>;
}

export async function readRecord(scope: TenantScope, id: string): Promise<SessionRecord> {
  const { collections, engine } = scope;
  const document = await collections.sessions.find(scope.tenant, id);
  if (document) {
    const info = await find(scope, document.id);
    if (info) return { session: document.id, info, body: await settle(scope, document), document };
    // The session was deleted by another dialect, or by a server that crashed before it removed the document.
    if (!document.body.making) await forgetSession(scope, document.id);
    throw notFound(id);
  }
  if (scope.tenant !== DEFAULT_TENANT) throw notFound(id);
  for (const session of fromSessionId(id)) {
    const info = await find(scope, session);
    const row = info && (await engine.log.find(session));
    if (info && row) return { session, info, body: toForeignBody(row.spec, info) };
  }
  throw notFound(id);
}

/** The record of a session that may be changed. Throws for an archived one. */
export async function readOpenRecord(scope: TenantScope, id: string): Promise<SessionRecord> {
  const record = await readRecord(scope, id);
  // Such a session is older than the keys, or a server with other options created it.
  if (isWorkspace(scope.tenant) && isOpenSandbox(record.info.sandbox))
    throw refuse(
      `The session ${id} has no isolated sandbox, which a workspace needs. Create another session.`,
    );
  if (record.body.archived_at === null) return record;
  throw refuse(`The session ${id} is archived, so it can only be read.`);
}

/** Removes the documents of a session: its record, its files, its work and its callback run. */
export async function forgetSession(scope: TenantScope, id: string): Promise<void> {
  const { catalog, collections } = scope;
  const { callbackRuns } = collections;
  if (await callbackRuns.find(SYSTEM_TENANT, id)) await callbackRuns.remove(SYSTEM_TENANT, id);
  if (!(await collections.sessions.find(scope.tenant, id))) return;
  const work = await collections.work.list(scope.tenant, { labels: { session: id }, limit: 1000 });
  await catalog.write(scope.tenant, [
    { op: "remove", kind: collections.sessions.kind, id, children: true },
    ...work.map((item) => ({ op: "remove", kind: collections.work.kind, id: item.id }) as const),
  ]);
}

/** Removes the session and its documents. */
export async function discardSession(scope: TenantScope, id: string): Promise<void> {
  if (await scope.engine.log.find(id)) await scope.engine.remove(id);
  await forgetSession(scope, id);
}

/**
 * Applies a pending change that the log holds already: the log is the source of truth. The change is found by its key:
 * an equal event may be of another dialect or of the agent, and the event itself may be trimmed away.
 */
export async function settle(
  { engine }: Pick<TenantScope, "engine">,
  { id, body }: Document<SessionBody>,
): Promise<SessionBody> {
  const { pending } = body;
  if (pending?.key === undefined) return body;
  const isApplied = (await engine.log.recall(id, pending.key)) !== undefined;
  return isApplied ? { ...body, ...pending.change } : body;
}

export function assertNotRunning({ info }: SessionRecord, what: string): void {
  const status = toStatus(info);
  if (status !== "running" && status !== "rescheduling") return;
  throw refuse(`The session is ${status}, so it cannot be ${what}. Interrupt it, or wait until it is idle.`);
}

async function find(
  { engine }: Pick<TenantScope, "engine">,
  session: string,
): Promise<SessionInfo | undefined> {
  try {
    return await engine.info(session);
  } catch (error) {
    if (error instanceof SluiceError && error.code === "session_not_found") return undefined;
    throw error;
  }
}

function notFound(id: string): SluiceError {
  return new SluiceError("session_not_found", `There is no session ${id}.`);
}

/** A session of another dialect, in the form of this one. */
function toForeignBody(spec: SessionSpec, info: SessionInfo): SessionBody {
  return {
    agent: {
      id: `agent_${spec.agent}`,
      type: "agent",
      version: 1,
      name: spec.agent,
      description: null,
      model: { id: info.model ?? spec.agent, speed: "standard" },
      system: spec.systemPrompt ?? null,
      tools: [],
      mcp_servers: [],
      skills: [],
      multiagent: null,
      execution_identity: { type: "service_account" },
    },
    environment_id: "env_local",
    config: { type: "self_hosted" },
    title: info.title,
    metadata: {},
    vault_ids: [],
    resources: [],
    archived_at: null,
  };
}
