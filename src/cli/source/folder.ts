import { type Checkpoint, SluiceClientError } from "../../client/index.ts";
import { type SessionInfo, SluiceError } from "../../contract/index.ts";
import type { StoredEventText } from "../../dialects/port.ts";
import type { EventLog, SessionRow } from "../../log/port.ts";
import { sessionNotFound } from "../../log/refusals.ts";
import type { CheckpointInfo } from "../../sandbox/checkpoint/port.ts";
import type { SandboxFiles } from "../../sandbox/port.ts";
import { toSessionInfo } from "../../sessions/fold/info.ts";
import { loadFold } from "../../sessions/fold/load.ts";
import { matchesFilter } from "../../sessions/lifecycle/session-list.ts";
import { readUsage } from "../../sessions/fold/usage-report.ts";
import type { Engine } from "../../sessions/port.ts";
import type { Sandboxes, SessionFilter, Source } from "./port.ts";

const PAGE = 500;

/** Reads the data folder without taking a lease, so that running sessions are not disturbed. */
export function createFolderSource(log: EventLog, folder: string): Source {
  return {
    where: folder,
    sessions: (filter) => readSessions(log, filter),
    async info(session) {
      const row = await log.find(session);
      if (!row) throw unknownSession(session, folder);
      return toInfo(log, row);
    },
    usage: (query) => readUsage({ log, usage: (filter) => log.usage.list(filter) }, query),
    read: (session, { after }) => readEvents(log, session, { after }),
    follow: (session, options) => followLog(log, session, options),
    close: () => log.close(),
  };
}

/** The events after the sequence `after`, live, until the session ends, is deleted, or `signal` aborts. */
export async function* followLog(
  log: EventLog,
  session: string,
  options: { after: number; signal: AbortSignal },
): AsyncGenerator<StoredEventText, void> {
  const ordinal = (await log.find(session))?.ordinal;
  if (ordinal === undefined) throw sessionNotFound(session);
  const release = log.hold(ordinal);
  let { after } = options;
  let isKnownToRun = false;
  try {
    while (!options.signal.aborted) {
      for await (const event of readEvents(log, session, { after, ordinal })) {
        yield event;
        after = event.sequence;
        if (options.signal.aborted) return;
        if (event.type === "session.ended" || event.type === "session.deleted") return;
      }
      const row = await log.find(session);
      if (row?.ordinal !== ordinal) return;
      if (row.head > after) continue;
      // Checked only once, because the check folds a whole turn. A later end of the session is an event.
      if (!isKnownToRun && (await isEnded(log, row))) return;
      isKnownToRun = true;
      await untilMoved(log, session, after, options.signal);
    }
  } finally {
    release();
  }
}

async function* readEvents(
  log: EventLog,
  session: string,
  from: { after: number; ordinal?: number },
): AsyncGenerator<StoredEventText, void> {
  let { after } = from;
  for (;;) {
    const events = await log.read(session, { ...from, after, limit: PAGE });
    yield* events;
    const last = events.at(-1);
    if (!last) return;
    after = last.sequence;
  }
}

async function* readSessions(
  log: EventLog,
  { status, agent }: SessionFilter = {},
): AsyncGenerator<SessionInfo, void> {
  let before: number | undefined;
  for (;;) {
    const rows = await log.list({ limit: 100, ...(before === undefined ? {} : { before }) });
    for (const row of rows) {
      if (agent !== undefined && row.spec.agent !== agent) continue;
      const info = await toInfo(log, row);
      if (matchesFilter(info, { status: status && [status] })) yield info;
    }
    before = rows.at(-1)?.ordinal;
    if (before === undefined) return;
  }
}

async function toInfo(log: EventLog, row: SessionRow): Promise<SessionInfo> {
  return toSessionInfo(row, await loadFold(log, row));
}

/** Whether the session has ended. A reader that starts after `session.ended` gets no event of it. */
async function isEnded(log: EventLog, row: SessionRow): Promise<boolean> {
  const fold = await loadFold(log, row);
  return fold.ended !== null;
}

async function untilMoved(log: EventLog, session: string, after: number, signal: AbortSignal): Promise<void> {
  try {
    await log.moved(session, after, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

export function unknownSession(session: string, where: string): SluiceError {
  const detail = `"${session}" is not in ${where}. \`sluice sessions\` lists the sessions.`;
  return new SluiceError("session_not_found", detail, { session });
}

/** Sandboxes through an engine of this process, which has the lease of a session while the command runs. */
export function createFolderSandboxes(engine: Engine, folder: string): Sandboxes {
  const named = nameUnknown(folder);
  return {
    where: folder,
    has: (session) => isKnown(engine.info(session)),
    files(session) {
      let opened: Promise<SandboxFiles> | undefined;
      const files = (): Promise<SandboxFiles> => (opened ??= engine.files(session));
      return {
        stat: async (path) => (await files()).stat(path),
        list: async (path) => (await files()).list(path),
        read: async (path) => (await (await files()).open(path)).content,
        write: async (path, content) => (await files()).write(path, content),
        mkdir: async (path) => (await files()).mkdir(path),
      };
    },
    async checkpoints(session, { limit }) {
      const all = await named(session, engine.checkpoints(session, limit === undefined ? {} : { limit }));
      return all.map(toCheckpoint);
    },
    checkpoint: async (session, options) =>
      toCheckpoint(await named(session, engine.checkpoint(session, options))),
    move: (session, sandbox) => named(session, engine.move(session, sandbox)),
    restore: async (session, checkpoint) =>
      toCheckpoint(await named(session, engine.restore(session, checkpoint))),
    async close() {
      await engine.drain({ graceMs: 0 });
      await engine.log.close();
    },
  };
}

/** Drops undefined fields, as on the wire. */
function toCheckpoint(info: CheckpointInfo): Checkpoint {
  return JSON.parse(JSON.stringify(info)) as Checkpoint;
}

/** Returns a function that replaces the error of an unknown session by one that names the server or folder. */
export function nameUnknown(where: string): <T>(session: string, answer: Promise<T>) => Promise<T> {
  return (session, answer) =>
    answer.catch((error: unknown) => {
      throw isUnknown(error) ? unknownSession(session, where) : error;
    });
}

/** Whether the session of an answer exists. */
export async function isKnown(answer: Promise<unknown>): Promise<boolean> {
  try {
    await answer;
    return true;
  } catch (error) {
    if (isUnknown(error)) return false;
    throw error;
  }
}

function isUnknown(error: unknown): boolean {
  const isOurs = error instanceof SluiceError || error instanceof SluiceClientError;
  return isOurs && error.code === "session_not_found";
}
