import { isDeepStrictEqual } from "node:util";
import type { Document } from "../../catalog/port.ts";
import { type SessionInfo, type SessionSpec, SluiceError } from "../../contract/index.ts";
import { fromSessionId } from "../../dialects/anthropic/ids.ts";
import { refuse } from "../../dialects/anthropic/resources/refusal.ts";
import { type SessionBody, toStatus } from "../../dialects/anthropic/session.ts";
import { readKept } from "../../log/read-kept.ts";
import { DEFAULT_OWNER, isTenant } from "../auth.ts";
import { forgetCallbacks } from "./callback-runs.ts";
import type { AnthropicServices } from "./services.ts";

/** A session as this dialect knows it: what its log says, and what stands beside it. */
export interface SessionRecord {
  /** Its name in the log. */
  readonly session: string;
  readonly info: SessionInfo;
  readonly body: SessionBody;
  /** Absent where it was made through another dialect. */
  readonly document?: Document<SessionBody>;
}

export async function readRecord(
  services: AnthropicServices,
  owner: string,
  id: string,
): Promise<SessionRecord> {
  const { shelves, engine } = services;
  const document = await shelves.sessions.find(owner, id);
  if (document) {
    const info = await find(services, document.id);
    if (info) return { session: document.id, info, body: await settle(services, document), document };
    // It was deleted through another dialect, or by a server that came no further.
    if (!document.body.making) await forgetSession(services, owner, document.id);
    throw notFound(id);
  }
  if (owner !== DEFAULT_OWNER) throw notFound(id);
  for (const session of fromSessionId(id)) {
    const info = await find(services, session);
    const row = info && (await engine.log.find(session));
    if (info && row) return { session, info, body: toForeignBody(row.spec, info) };
  }
  throw notFound(id);
}

/** The same, for what changes it or speaks to it. */
export async function readOpenRecord(
  services: AnthropicServices,
  owner: string,
  id: string,
): Promise<SessionRecord> {
  const record = await readRecord(services, owner, id);
  // Made before there were keys, or by a server that was started otherwise.
  if (isTenant(owner) && record.info.sandbox === "local")
    throw refuse(`The session ${id} has no sandbox that would keep workspaces apart. Create another one.`);
  if (record.body.archived_at === null) return record;
  throw refuse(`The session ${id} is archived: it can be read, and nothing else.`);
}

/** All that stands beside a session's log: its record, its own files, and whatever workers were wanted for. */
export async function forgetSession(services: AnthropicServices, owner: string, id: string): Promise<void> {
  const { catalog, shelves } = services;
  await forgetCallbacks(services, id);
  if (!(await shelves.sessions.find(owner, id))) return;
  const work = await shelves.work.list(owner, { labels: { session: id }, limit: 1000 });
  await catalog.write(owner, [
    { op: "remove", kind: shelves.sessions.kind, id, children: true },
    ...work.map((item) => ({ op: "remove", kind: shelves.work.kind, id: item.id }) as const),
  ]);
}

/** The session and all that stands beside it. */
export async function discardSession(services: AnthropicServices, owner: string, id: string): Promise<void> {
  if (await services.engine.log.find(id)) await services.engine.remove(id);
  await forgetSession(services, owner, id);
}

/** The log is the truth: a change that it tells of has happened, whether or not the document says so yet. */
export async function settle(
  { engine }: AnthropicServices,
  { id, body }: Document<SessionBody>,
): Promise<SessionBody> {
  const { pending } = body;
  if (!pending) return body;
  const types = new Set(["session.updated"] as const);
  for (let { after } = pending; ;) {
    const events = await readKept(engine.log, id, { after, limit: 32, types });
    for (const { sequence, body: told } of events) {
      const { data } = JSON.parse(told) as { data: Record<string, unknown> };
      const isIt = Object.entries(pending.change).some(([key, value]) => isDeepStrictEqual(data[key], value));
      if (isIt) return { ...body, ...pending.change };
      after = sequence;
    }
    if (events.length === 0) return body;
  }
}

export function assertNotRunning({ info }: SessionRecord, what: string): void {
  const status = toStatus(info);
  if (status !== "running" && status !== "rescheduling") return;
  throw refuse(`The session is ${status}, so it cannot be ${what}. Interrupt it, or wait until it is idle.`);
}

async function find({ engine }: AnthropicServices, session: string): Promise<SessionInfo | undefined> {
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

/** A session from elsewhere has no agent of this dialect; what it runs is told in an agent's form. */
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
