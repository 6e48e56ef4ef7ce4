import { SluiceError, type SluiceEvent } from "../../contract/index.ts";
import type { Dialect } from "../../dialects/port.ts";
import type { EventLog, ReadRange, SessionRow, StoredEvent } from "../../log/port.ts";
import { cursorGone } from "../../log/refusals.ts";
import type { Engine } from "../../sessions/port.ts";

/** The row of a session. `until` is the last sequence of an ended session; absent in others. */
export async function readSession(engine: Engine, id: string): Promise<{ row: SessionRow; until?: number }> {
  const { ended } = await engine.info(id);
  // Read after `info`, so that the head of an ended session is final.
  const row = await engine.log.find(id);
  if (!row) throw new SluiceError("session_not_found", `There is no session ${id}.`, { sessionId: id });
  return ended ? { row, until: row.head } : { row };
}

/** The start of a reader: its cursor, or the oldest event that is kept. */
export function startAt(row: SessionRow, cursor: number | undefined): number {
  if (cursor !== undefined) assertCursor(row, cursor);
  return cursor ?? row.floor;
}

/** The header that names the first sequence of a trimmed log. */
export function toOldestHeader({ floor }: SessionRow): Record<string, string> {
  return floor > 0 ? { "sluice-oldest": String(floor + 1) } : {};
}

/** Refuses a cursor that the log cannot serve exactly. */
export function assertCursor(row: SessionRow, cursor: number): void {
  if (cursor < row.floor || cursor > row.head) throw cursorGone(row.id, cursor, row);
}

/**
 * The dialect's state after `cursor`. A state does not outlive its turn, so folding from the start of the turn
 * is enough, however long the history.
 */
export async function readStateAt<State, View>(
  log: EventLog,
  source: { session: string; ordinal?: number; dialect: Dialect<State, View>; view: View },
  cursor: number,
): Promise<State> {
  const { dialect, session, view } = source;
  const of = source.ordinal === undefined ? {} : { ordinal: source.ordinal };
  let state = dialect.initial(view);
  if (dialect.memory === "none" || cursor === 0) return state;
  const raw = dialect.wantsRaw?.(view) ?? false;
  let after = await readTurnStart(log, session, cursor, of);
  while (after < cursor) {
    const events = await log.read(session, { after, limit: Math.min(PAGE, cursor - after), raw, ...of });
    if (events.length === 0) break;
    for (const event of events) state = dialect.project(state, event).state;
    after = (events.at(-1) as StoredEvent).sequence;
  }
  return state;
}

const PAGE = 512;

/** The sequence before the last `turn.started` up to `cursor`, or the log's floor. */
export async function readTurnStart(
  log: EventLog,
  session: string,
  cursor: number,
  of: { ordinal?: number } = {},
): Promise<number> {
  const floor = (await log.find(session))?.floor ?? 0;
  for (let end = cursor; end > floor; end -= PAGE) {
    const begin = Math.max(floor, end - PAGE);
    const started = await readLastStart(log, session, { begin, end, of });
    if (started !== undefined) return started - 1;
  }
  return floor;
}

async function readLastStart(
  log: EventLog,
  session: string,
  range: { begin: number; end: number; of: { ordinal?: number } },
): Promise<number | undefined> {
  let found: number | undefined;
  let after = range.begin;
  while (after < range.end) {
    const events = await log.read(session, { after, limit: range.end - after, ...range.of });
    if (events.length === 0) break;
    for (const event of events) if (event.type === "turn.started") found = event.sequence;
    after = (events.at(-1) as StoredEvent).sequence;
  }
  return found;
}

/** The most text of a page of earlier events, unless one event alone has more. */
const BACKWARD_LENGTH = 8 * 1024 * 1024;

/** The newest events before a sequence, in order. `hasMore` says that older ones exist. */
export async function readBefore(
  log: EventLog,
  row: SessionRow,
  range: Omit<ReadRange, "after"> & { readonly before: number },
): Promise<{ events: StoredEvent[]; hasMore: boolean }> {
  const { types, limit, raw = false } = range;
  const found: StoredEvent[] = [];
  let length = 0;
  for (let end = Math.min(range.before - 1, row.head); end > row.floor;) {
    const begin = Math.max(row.floor, end - PAGE);
    const events = await readSpan(log, row, { begin, end, raw });
    for (const event of events.toReversed()) {
      if (types && !types.has(event.type)) continue;
      length += event.body.length + (event.raw?.length ?? 0);
      if (found.length === limit || (found.length > 0 && length > BACKWARD_LENGTH))
        return { events: found.toReversed(), hasMore: true };
      found.push(event);
    }
    end = begin;
  }
  return { events: found.toReversed(), hasMore: false };
}

/** The events after `begin`, up to `end`. */
async function readSpan(
  log: EventLog,
  row: SessionRow,
  { begin, end, raw }: { begin: number; end: number; raw: boolean },
): Promise<StoredEvent[]> {
  const found: StoredEvent[] = [];
  for (let after = begin; after < end;) {
    const events = await log.read(row.id, { after, limit: end - after, raw, ordinal: row.ordinal });
    if (events.length === 0) break;
    found.push(...events);
    after = (events.at(-1) as StoredEvent).sequence;
  }
  return found;
}

/** The sequence before the first event at this time or later. Times never decrease within a log: a binary search. */
export async function seekTime(log: EventLog, row: SessionRow, time: number): Promise<number> {
  let [low, high] = [row.floor, row.head];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const [event] = await log.read(row.id, { after: middle, limit: 1 });
    if (event && Date.parse((JSON.parse(event.body) as SluiceEvent).time) < time) low = middle + 1;
    else high = middle;
  }
  return low;
}
