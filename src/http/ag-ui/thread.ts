import type { Catalog } from "../../catalog/port.ts";
import { RESERVED_SESSION_IDS, SessionId, type SessionInfo, SluiceError } from "../../contract/index.ts";
import {
  type ForwardedProps,
  type RunInput,
  toCustomTools,
  toInstructions,
} from "../../dialects/ag-ui/parse.ts";
import type { SessionRow } from "../../log/port.ts";
import type { Engine } from "../../sessions/port.ts";
import type { Logger } from "../context.ts";
import { digestOf } from "../digest.ts";
import type { Services } from "../services.ts";

export interface AgUiServices extends Services {
  /** The sessions of runs: a returning client may know only its run. */
  readonly runs: SessionNames;
  /** The sessions of threads whose id differs from their session's. */
  readonly aliases: SessionNames;
  /** Runs one task of a tenant's thread at a time: only one run of it begins at once. */
  readonly inThread: <T>(threadId: string, task: () => Promise<T>) => Promise<T>;
  readonly logger: Logger;
}

/** The session of a thread: the one of that id, the one that the agent knows by `sessionId`, or a new one. */
export async function openThread(
  services: AgUiServices,
  agent: string,
  input: RunInput,
  { sessionId, sluice: options }: ForwardedProps,
): Promise<SessionRow> {
  const { engine, aliases } = services;
  const id = await findSession(services, input.threadId);
  const row = await engine.log.find(id);
  if (row) {
    if (row.spec.agent !== agent)
      throw new SluiceError(
        "invalid_request",
        `The thread ${id} is a session of the agent "${row.spec.agent}".`,
      );
    if (sessionId !== undefined) await assertNative(engine, id, sessionId);
    return row;
  }
  if (sessionId !== undefined) {
    const known = await findNative(engine, agent, sessionId);
    await aliases.remember(input.threadId, known.id);
    return known;
  }
  const custom = toCustomTools(input);
  const instructions = options?.instructions ?? toInstructions(input);
  const spec = {
    // A thread of this dialect never ends, so its session must outlive failures of the agent.
    lasting: true,
    ...(options as object),
    agent,
    ...(custom ? { tools: { ...options?.tools, custom } } : {}),
    ...(instructions === undefined ? {} : { instructions }),
  };
  await engine.create(id, spec).catch(throwNotFound);
  return readRow(engine, id);
}

/** The id of a thread's session. It has to fit into paths; a thread may have any name, such as one of `useId()`. */
export async function findSession(
  { aliases }: Pick<AgUiServices, "aliases">,
  threadId: string,
): Promise<string> {
  const canBeSession = SessionId.safeParse(threadId).success && !RESERVED_SESSION_IDS.has(threadId);
  const own = canBeSession ? threadId : `thread-${digestOf(threadId).slice(0, 32)}`;
  return (await aliases.find(threadId)) ?? own;
}

/** The agent is a part of the path here, so an unknown one is a 404. */
function throwNotFound(error: unknown): never {
  if (!(error instanceof SluiceError) || error.code !== "unsupported_agent") throw error;
  throw new SluiceError("not_found", error.message, error.facts);
}

/** Throws if the thread belongs to another agent than the one in the path. */
export async function readThreadRow(
  services: AgUiServices,
  agent: string,
  threadId: string,
): Promise<SessionRow> {
  const row = await readRow(services.engine, await findSession(services, threadId));
  if (row.spec.agent === agent) return row;
  throw new SluiceError("session_not_found", `There is no thread ${threadId} of the agent "${agent}".`, {
    threadId,
  });
}

export async function readRow(engine: Engine, id: string): Promise<SessionRow> {
  const row = await engine.log.find(id);
  if (!row) throw new SluiceError("session_not_found", `There is no thread ${id}.`, { threadId: id });
  return row;
}

async function assertNative(engine: Engine, id: string, sessionId: string): Promise<void> {
  const { nativeSessionId } = await engine.info(id);
  if (nativeSessionId !== sessionId) throw unknownNative(sessionId);
}

const MAX_SEARCHED = 1000;

/** The session of a native session id, for a client that knows no other id. */
async function findNative(engine: Engine, agent: string, sessionId: string): Promise<SessionRow> {
  let cursor: string | undefined;
  for (let seen = 0; seen < MAX_SEARCHED;) {
    const page: { sessions: SessionInfo[]; next?: string } = await engine.list({
      limit: 100,
      ...(cursor ? { cursor } : {}),
    });
    const found = page.sessions.find((info) => info.nativeSessionId === sessionId && info.agent === agent);
    if (found) return readRow(engine, found.sessionId);
    if (page.next === undefined) break;
    seen += page.sessions.length;
    cursor = page.next;
  }
  throw unknownNative(sessionId);
}

function unknownNative(sessionId: string): SluiceError {
  return new SluiceError("session_not_found", `The agent has no session ${sessionId} here.`, { sessionId });
}

const MAX_CACHED = 10_000;

/** The sessions of names that clients give. */
export interface SessionNames {
  find(name: string): Promise<string | undefined>;
  remember(name: string, session: string): Promise<void>;
}

/** Maps a client's names to sessions; durable if there is a catalog. */
export class SessionIndex {
  readonly #catalog: Catalog | undefined;
  readonly #kind: "ag-ui.run" | "ag-ui.thread";
  readonly #sessions = new Map<string, string>();

  constructor(kind: "ag-ui.run" | "ag-ui.thread", catalog: Catalog | undefined) {
    this.#kind = kind;
    this.#catalog = catalog;
  }

  /** The names that clients of one tenant have given. */
  of(tenant: string): SessionNames {
    return {
      find: (name) => this.#find(tenant, name),
      remember: (name, session) => this.#remember(tenant, name, session),
    };
  }

  async #remember(tenant: string, name: string, session: string): Promise<void> {
    this.#keep(tenant, name, session);
    const known = await this.#catalog?.find(tenant, this.#kind, name);
    const kind = this.#kind;
    const body = { session };
    const change = known
      ? ({ op: "replace", kind, id: name, expect: known.revision, body } as const)
      : ({ op: "create", kind, id: name, body } as const);
    if ((known?.body as { session?: string } | undefined)?.session !== session)
      await this.#catalog?.write(tenant, [change]);
  }

  async #find(tenant: string, name: string): Promise<string | undefined> {
    const cached = this.#sessions.get(toKey(tenant, name));
    if (cached !== undefined) return cached;
    const known = await this.#catalog?.find(tenant, this.#kind, name);
    const session = (known?.body as { session?: string } | undefined)?.session;
    if (session !== undefined) this.#keep(tenant, name, session);
    return session;
  }

  #keep(tenant: string, name: string, session: string): void {
    const key = toKey(tenant, name);
    this.#sessions.delete(key);
    this.#sessions.set(key, session);
    const [oldest] = this.#sessions.size > MAX_CACHED ? this.#sessions.keys() : [];
    if (oldest !== undefined) this.#sessions.delete(oldest);
  }
}

function toKey(tenant: string, name: string): string {
  return `${tenant}\n${name}`;
}
