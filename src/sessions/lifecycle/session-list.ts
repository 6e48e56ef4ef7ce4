import { defined } from "../../contract/own-keys.ts";
import {
  SluiceError,
  type InputList,
  type Outline,
  type SessionAt,
  type SessionEntry,
  type SessionFilter,
  type SessionInfo,
  type ShownSpec,
  type StatusFilter,
} from "../../contract/index.ts";
import type { EventLog, SessionRow } from "../../log/port.ts";
import { History } from "../fold/history.ts";
import { toListed, toOldest, toSessionInfo, toShownSpec } from "../fold/info.ts";
import { loadFold } from "../fold/load.ts";
import type { QueuedInput } from "../fold/queue.ts";
import { toInputList } from "../inbox/queue-change.ts";
import type { OutlinePage, SessionPage } from "../port.ts";
import type { OpenSessions } from "./open-sessions.ts";
import type { Recovery } from "./recovery.ts";

/** The sessions as clients see them: from the open session where there is one, else from the log. */
export class SessionList {
  readonly #log: EventLog;
  readonly #open: OpenSessions;
  readonly #recovery: Recovery;
  readonly #history: History;

  constructor(log: EventLog, open: OpenSessions, recovery: Recovery) {
    this.#log = log;
    this.#open = open;
    this.#recovery = recovery;
    this.#history = new History(log);
  }

  async info(id: string): Promise<SessionInfo> {
    await this.#recovery.recoverFirst(id);
    return this.infoOf(await this.#open.row(id));
  }

  async infoOf(row: SessionRow): Promise<SessionInfo> {
    // Another process may have taken over a resting session: then only the log has its state.
    const held = await this.#open.held(row.id);
    // An open session does not notice trimming.
    return held ? { ...held.info(), ...toOldest(row) } : toSessionInfo(row, await loadFold(this.#log, row));
  }

  async inbox(id: string): Promise<readonly QueuedInput[]> {
    await this.#recovery.recoverFirst(id);
    const row = await this.#open.row(id);
    const held = await this.#open.held(id);
    return held?.queue.inbox ?? (await loadFold(this.#log, row)).inbox;
  }

  async inputs(id: string): Promise<InputList> {
    await this.#recovery.recoverFirst(id);
    const row = await this.#open.row(id);
    const held = await this.#open.held(id);
    return held ? held.queue.list() : toInputList(await loadFold(this.#log, row));
  }

  /** The session in the live list; undefined where it is gone. */
  async entry(id: string): Promise<{ row: SessionRow; entry: SessionEntry } | undefined> {
    const row = await this.#log.find(id);
    return row && { row, entry: await this.entryOf(row) };
  }

  async entryOf(row: SessionRow): Promise<SessionEntry> {
    const held = await this.#open.held(row.id);
    if (held) return { ...held.entry(), ...toOldest(row) };
    const fold = await loadFold(this.#log, row);
    return { ...toSessionInfo(row, fold), ...toListed(fold) };
  }

  async outline(id: string, { limit, cursor }: OutlinePage): Promise<Outline> {
    const before = cursor === undefined ? undefined : parseCursor(cursor);
    return this.#history.outline(await this.#open.row(id), { limit, ...defined({ before }) });
  }

  async at(id: string, sequence: number): Promise<SessionAt> {
    return this.#history.at(await this.#open.row(id), sequence);
  }

  async spec(id: string): Promise<ShownSpec> {
    await this.#recovery.recoverFirst(id);
    const row = await this.#open.row(id);
    return toShownSpec(row, await loadFold(this.#log, row));
  }

  /** A page under a filter examines a bounded number of sessions, so it may be short, or empty, and have a `next`. */
  async page(page: SessionPage): Promise<{ sessions: SessionInfo[]; next?: string }> {
    const { limit, cursor, tenant, isOwn = async () => true, ...filter } = page;
    const isFiltered = [page.isOwn, ...Object.values(filter)].some((wanted) => wanted !== undefined);
    const sessions: SessionInfo[] = [];
    let before = cursor === undefined ? undefined : parseCursor(cursor);
    for (let left = isFiltered ? MAX_EXAMINED : limit; left > 0;) {
      const wanted = Math.min(left, isFiltered ? STRIDE : limit);
      const rows = await this.#log.list({ limit: wanted + 1, ...defined({ before, tenant }) });
      const examined = rows.slice(0, wanted);
      const infos = await Promise.all(
        examined.map(async (row) =>
          isOfAgent(row, filter) && (await isOwn(row)) ? this.infoOf(row) : undefined,
        ),
      );
      for (const [index, row] of examined.entries()) {
        before = row.ordinal;
        const info = infos[index];
        if (info && matchesFilter(info, filter)) sessions.push(info);
        if (sessions.length < limit) continue;
        return index === rows.length - 1 ? { sessions } : { sessions, next: String(before) };
      }
      if (rows.length <= wanted) return { sessions };
      left -= examined.length;
    }
    return before === undefined ? { sessions } : { sessions, next: String(before) };
  }
}

/** How many sessions one page under a filter examines, and how many at once. */
const MAX_EXAMINED = 500;
const STRIDE = 50;

function isOfAgent({ spec }: SessionRow, { agent }: SessionFilter): boolean {
  return agent === undefined || spec.agent === agent;
}

/** Whether a session is in a list under this filter. */
export function matchesFilter(info: SessionInfo, filter: SessionFilter): boolean {
  const { agent, sessionId, title, directory } = info;
  if (filter.agent !== undefined && filter.agent !== agent) return false;
  if (filter.status && !hasStatus(info, filter.status)) return false;
  const text = filter.text?.toLowerCase();
  return (
    text === undefined || [sessionId, title, directory].some((part) => part?.toLowerCase().includes(text))
  );
}

function hasStatus({ status, paused }: SessionInfo, wanted: readonly StatusFilter[]): boolean {
  return wanted.includes(status) || (paused && wanted.includes("paused"));
}

function parseCursor(cursor: string): number {
  const ordinal = Number(cursor);
  if (Number.isSafeInteger(ordinal) && ordinal > 0) return ordinal;
  throw new SluiceError("invalid_cursor", `"${cursor}" is not a cursor; use the "next" of the page before`);
}
