import { SluiceError, type SessionInfo } from "../contract/index.ts";
import type { StoredEventText } from "../dialects/stored.ts";
import type { EventLog, SessionRow } from "../log/port.ts";
import { sessionNotFound } from "../log/refusals.ts";
import { toSessionInfo } from "../sessions/info.ts";
import { loadFold } from "../sessions/load.ts";
import type { Source } from "./source.ts";

const PAGE = 500;

/** Reads the data folder itself. It claims nothing, so whoever runs a session there is not disturbed. */
export function createFolderSource(log: EventLog, folder: string): Source {
  return {
    where: folder,
    sessions: () => readSessions(log),
    async info(session) {
      const row = await log.find(session);
      if (!row) throw unknownSession(session, folder);
      return toInfo(log, row);
    },
    read: (session, { after }) => readEvents(log, session, { after }),
    follow: (session, options) => followLog(log, session, options),
    close: () => log.close(),
  };
}

/** Every event behind `after`, live, until the session ends, is deleted, or `signal` aborts. */
export async function* followLog(
  log: EventLog,
  session: string,
  options: { after: number; signal: AbortSignal },
): AsyncGenerator<StoredEventText, void> {
  const ordinal = (await log.find(session))?.ordinal;
  if (ordinal === undefined) throw sessionNotFound(session);
  const letGo = log.hold(ordinal);
  let { after } = options;
  let isKnownToGoOn = false;
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
      // Asked once: it costs a whole turn, and an end that comes later is seen as it comes.
      if (!isKnownToGoOn && (await isEnded(log, row))) return;
      isKnownToGoOn = true;
      await untilMoved(log, session, after, options.signal);
    }
  } finally {
    letGo();
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

async function* readSessions(log: EventLog): AsyncGenerator<SessionInfo, void> {
  let before: number | undefined;
  for (;;) {
    const rows = await log.list({ limit: 100, ...(before === undefined ? {} : { before }) });
    for (const row of rows) yield await toInfo(log, row);
    before = rows.at(-1)?.ordinal;
    if (before === undefined) return;
  }
}

async function toInfo(log: EventLog, row: SessionRow): Promise<SessionInfo> {
  return toSessionInfo(row, await loadFold(log, row));
}

/** A reader whose cursor stands behind `session.ended` will never see it. */
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
  const detail = `"${session}" is not in ${where}. \`sluice sessions\` lists what is there.`;
  return new SluiceError("session_not_found", detail, { session });
}
