import { defined } from "../../contract/own-keys.ts";
import { SluiceError, type SessionInfo } from "../../contract/index.ts";
import type { EventLog, SessionRow } from "../../log/port.ts";
import { toOldest, toSessionInfo } from "../fold/info.ts";
import { loadFold } from "../fold/load.ts";
import type { QueuedInput } from "../fold/session-fold.ts";
import type { OpenSessions } from "./open-sessions.ts";
import type { Recovery } from "./recovery.ts";

/** The sessions as clients see them: from the open session where there is one, else from the log. */
export class SessionList {
  readonly #log: EventLog;
  readonly #open: OpenSessions;
  readonly #recovery: Recovery;

  constructor(log: EventLog, open: OpenSessions, recovery: Recovery) {
    this.#log = log;
    this.#open = open;
    this.#recovery = recovery;
  }

  async info(id: string): Promise<SessionInfo> {
    await this.#recovery.of(id);
    return this.infoOf(await this.#open.row(id));
  }

  async infoOf(row: SessionRow): Promise<SessionInfo> {
    // Another process may have taken over a resting session: then only the log has its state.
    const held = await this.#open.held(row.id);
    // An open session does not notice trimming.
    return held ? { ...held.info(), ...toOldest(row) } : toSessionInfo(row, await loadFold(this.#log, row));
  }

  async inbox(id: string): Promise<readonly QueuedInput[]> {
    await this.#recovery.of(id);
    const row = await this.#open.row(id);
    const held = await this.#open.held(id);
    return held?.inbox ?? (await loadFold(this.#log, row)).inbox;
  }

  async page(page: { cursor?: string; limit: number }): Promise<{ sessions: SessionInfo[]; next?: string }> {
    const before = page.cursor === undefined ? undefined : parseCursor(page.cursor);
    const rows = await this.#log.list({ limit: page.limit + 1, ...defined({ before }) });
    const shown = rows.slice(0, page.limit);
    const sessions = await Promise.all(shown.map((row) => this.infoOf(row)));
    const last = shown.at(-1);
    return rows.length > page.limit && last ? { sessions, next: String(last.ordinal) } : { sessions };
  }
}

function parseCursor(cursor: string): number {
  const ordinal = Number(cursor);
  if (Number.isSafeInteger(ordinal) && ordinal > 0) return ordinal;
  throw new SluiceError("invalid_cursor", `"${cursor}" is not a cursor; use the "next" of the page before`);
}
