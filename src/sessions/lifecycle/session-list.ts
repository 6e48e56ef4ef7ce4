import { defined } from "../../contract/own-keys.ts";
import { SluiceError, type SessionInfo } from "../../contract/index.ts";
import type { EventLog, SessionRow } from "../../log/port.ts";
import { toOldest, toSessionInfo } from "../fold/info.ts";
import { loadFold } from "../fold/load.ts";
import type { QueuedInput } from "../fold/session-fold.ts";
import type { SessionPage } from "../port.ts";
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

  async page(page: SessionPage): Promise<{ sessions: SessionInfo[]; next?: string }> {
    let before = page.cursor === undefined ? undefined : parseCursor(page.cursor);
    const sessions: SessionInfo[] = [];
    for (;;) {
      const room = page.limit - sessions.length;
      const rows = await this.#log.list({ limit: room + 1, ...defined({ before }) });
      const shown = rows.slice(0, room);
      sessions.push(...(await this.#matching(shown, page)));
      before = shown.at(-1)?.ordinal;
      if (rows.length <= room || before === undefined) return { sessions };
      if (sessions.length === page.limit) return { sessions, next: String(before) };
    }
  }

  /** The sessions of a page that its filter permits. The status of a session is asked for last: it folds the log. */
  async #matching(rows: readonly SessionRow[], { status, agent }: SessionPage): Promise<SessionInfo[]> {
    const chosen = rows.filter(({ spec }) => agent === undefined || spec.agent === agent);
    const infos = await Promise.all(chosen.map((row) => this.infoOf(row)));
    return infos.filter((info) => status === undefined || info.status === status);
  }
}

function parseCursor(cursor: string): number {
  const ordinal = Number(cursor);
  if (Number.isSafeInteger(ordinal) && ordinal > 0) return ordinal;
  throw new SluiceError("invalid_cursor", `"${cursor}" is not a cursor; use the "next" of the page before`);
}
