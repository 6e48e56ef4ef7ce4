import type { EventLog, ReadRange, SessionRow, StoredEvent } from "../../log/port.ts";
import type { SessionGuard } from "./session-guard.ts";

/** How many rows of others a list passes over. */
const MAX_EXAMINED = 5_000;

/** The log for routes of one request: sessions of others are not there, and nothing can be written. */
export function guardLog(log: EventLog, guard: SessionGuard): EventLog {
  const after = async <T>(session: string, work: () => Promise<T>): Promise<T> => {
    await guard.permit(session);
    return work();
  };
  return {
    async find(session: string): Promise<SessionRow | undefined> {
      const row = await log.find(session);
      return row && (await guard.isOwn(row)) ? row : undefined;
    },
    async list({ limit, before: first }): Promise<SessionRow[]> {
      const found: SessionRow[] = [];
      for (let before = first, examined = 0; examined < MAX_EXAMINED; examined += limit) {
        const page = { limit, ...(before !== undefined && { before }), ...guard.listed };
        const rows = await log.list(page);
        for (const row of rows) {
          if (await guard.isOwn(row)) found.push(row);
          if (found.length === limit) return found;
        }
        if (rows.length < limit) break;
        before = rows.at(-1)?.ordinal;
      }
      return found;
    },
    read: (session: string, range: ReadRange) => after(session, () => log.read(session, range)),
    recall: (session, key) => after(session, () => log.recall(session, key)),
    moved: (session, head, options) => after(session, () => log.moved(session, head, options)),
    get turns(): never {
      return refuse();
    },
    get usage(): never {
      return refuse();
    },
    peek: (): StoredEvent[] | undefined => undefined,
    hold: refuse,
    observe: refuse,
    resting: refuse,
    size: refuse,
    active: refuse,
    retired: refuse,
    create: refuse,
    claim: refuse,
    append: refuse,
    trim: refuse,
    remove: refuse,
    close: refuse,
  };
}

function refuse(): never {
  throw new TypeError("Routes only read single sessions of the log; the rest is the engine's.");
}
