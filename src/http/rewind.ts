import type { Dialect } from "../dialects/port.ts";
import type { EventLog, StoredEvent } from "../log/port.ts";

/**
 * The dialect's state behind `cursor`. A turn's end is a clean cut, so folding from the start of the turn
 * is enough, whatever the history.
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

/** The sequence before the last `turn.started` up to `cursor`, or the log's floor where there is none. */
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
