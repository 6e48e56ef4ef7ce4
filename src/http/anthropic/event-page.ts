import type { TimeRange } from "../../catalog/port.ts";
import { anthropic, toldTypes } from "../../dialects/anthropic/dialect.ts";
import { toEventId } from "../../dialects/anthropic/ids.ts";
import { toSentEvents } from "../../dialects/anthropic/payload.ts";
import type { AnthropicState } from "../../dialects/anthropic/state.ts";
import type { EventLog, SessionRow, StoredEvent } from "../../log/port.ts";
import type { Engine } from "../../sessions/port.ts";
import { readStateAt, readTurnStart } from "../rewind.ts";
import { readPage, type Order, type Stretch } from "./page.ts";

export interface EventQuery {
  readonly list: string;
  readonly order: Order;
  readonly limit: number;
  readonly page?: string | undefined;
  readonly types?: ReadonlySet<string> | undefined;
  readonly created?: TimeRange | undefined;
}

/** An event in its list: its JSON, and its place. */
interface Told {
  readonly place: number;
  readonly data: string;
}

/** A page of what a session has told, each event once, in the order in which it was processed. */
export async function readEventPage(
  engine: Engine,
  session: string,
  query: EventQuery,
): Promise<{ data: readonly string[]; next_page: string | null }> {
  const { items, next_page } = await readPage(
    query,
    (stretch) => readTold(engine, session, { query, stretch }),
    ({ place }) => place,
  );
  return { data: items.map(({ data }) => data), next_page };
}

// A place is the sequence of the log's event and the frame's number in it; what is queued comes behind all.
const FRAMES = 4096;
const QUEUE = 2 ** 52;
const PAGE = 512;
const VIEW = { list: true };

interface Request {
  readonly query: EventQuery;
  readonly stretch: Stretch;
}

async function readTold(engine: Engine, session: string, request: Request): Promise<Told[]> {
  const { order, limit } = request.stretch;
  const found: Told[] = [];
  const queued = async (): Promise<void> => {
    for (const told of await readQueued(engine, session, request)) if (found.length < limit) found.push(told);
  };
  if (order === "desc") await queued();
  if (found.length < limit) {
    const source =
      order === "asc" ? readForth(engine.log, session, request) : readBack(engine.log, session, request);
    for await (const told of source) {
      found.push(told);
      if (found.length === limit) return found;
    }
  }
  if (order === "asc") await queued();
  return found;
}

async function* readForth(log: EventLog, session: string, { query, stretch }: Request): AsyncGenerator<Told> {
  const row = await log.find(session);
  if (!row || (stretch.after ?? 0) >= QUEUE) return;
  const from = stretch.after ?? -1;
  const begin = Math.max(
    row.floor,
    Math.floor(from / FRAMES) - 1,
    await seekTime(log, row, lowest(query.created)),
  );
  const source = { session, dialect: anthropic, view: VIEW };
  let state = await readStateAt(log, source, begin);
  for (let after = begin; ;) {
    const events = await log.read(session, { after, limit: PAGE, types: toldTypes() });
    for (const event of events) {
      const told = project(state, event);
      state = told.state;
      for (const one of told.frames) {
        if (isLater(one, query.created)) return;
        if (one.place > from && fits(one, query)) yield one;
      }
    }
    const last = events.at(-1);
    if (!last) return;
    after = last.sequence;
  }
}

/** Turn by turn from the end: each is told forwards, as it cannot be otherwise, and given backwards. */
async function* readBack(log: EventLog, session: string, { query, stretch }: Request): AsyncGenerator<Told> {
  const row = await log.find(session);
  if (!row) return;
  const before =
    stretch.after === undefined || stretch.after >= QUEUE ? Number.POSITIVE_INFINITY : stretch.after;
  const head = Math.min(row.head, Math.floor(before / FRAMES));
  for (let end = head; end > row.floor;) {
    const begin = await readTurnStart(log, session, end);
    const turn = await readTurn(log, session, { begin, end });
    for (const one of turn.toReversed()) {
      if (isEarlier(one, query.created)) return;
      if (one.place < before && fits(one, query)) yield one;
    }
    end = begin;
  }
}

async function readTurn(
  log: EventLog,
  session: string,
  { begin, end }: { begin: number; end: number },
): Promise<Framed[]> {
  let state = anthropic.initial(VIEW);
  const turn: Framed[] = [];
  for (let after = begin; after < end;) {
    const events = await log.read(session, { after, limit: PAGE, types: toldTypes() });
    for (const event of events) {
      if (event.sequence > end) return turn;
      const told = project(state, event);
      state = told.state;
      turn.push(...told.frames);
    }
    const last = events.at(-1);
    if (!last) return turn;
    after = last.sequence;
  }
  return turn;
}

interface Framed extends Told {
  readonly type: string;
  readonly time: number;
}

function project(state: AnthropicState, event: StoredEvent): { state: AnthropicState; frames: Framed[] } {
  const projected = anthropic.project(state, event);
  const frames = projected.frames.map(({ event: type = "", data }, index) => ({
    place: event.sequence * FRAMES + index,
    data,
    type,
    time: readTime(data),
  }));
  return { state: projected.state, frames };
}

/** Input that waits for its turn has not been processed, so no range of time has it. */
async function readQueued(engine: Engine, session: string, { query, stretch }: Request): Promise<Told[]> {
  const { types, created = {} } = query;
  const isRanged = Object.values(created).some((bound) => bound !== undefined);
  const { after, order } = stretch;
  if (isRanged || (order === "desc" && after !== undefined && after < QUEUE)) return [];
  const inputs = await engine.inbox(session);
  const told = inputs.flatMap(({ sequence, payload }) =>
    sequence === undefined
      ? []
      : toSentEvents(payload).map((event, index) => ({
          place: QUEUE + sequence * FRAMES + index,
          type: event.type,
          data: JSON.stringify({ ...event, id: toEventId(session, sequence, index), processed_at: null }),
        })),
  );
  const ours = told.filter(({ type }) => types === undefined || types.has(type));
  if (order === "asc") return ours.filter(({ place }) => place > (after ?? -1));
  return ours.filter(({ place }) => after === undefined || place < after).toReversed();
}

/** The sequence before the first event of that time or later: times never go back, so halving finds it. */
async function seekTime(log: EventLog, row: SessionRow, time: number | undefined): Promise<number> {
  if (time === undefined) return row.floor;
  let [low, high] = [row.floor, row.head];
  while (low < high) {
    const middle = (low + high) >> 1;
    const [event] = await log.read(row.id, { after: middle, limit: 1 });
    if (!event || readTime(event.body) >= time) high = middle;
    else low = middle + 1;
  }
  return low;
}

function lowest({ gt, gte }: TimeRange = {}): number | undefined {
  return gt === undefined ? gte : Math.max(gt, gte ?? gt);
}

function fits({ type, time }: Framed, { types, created = {} }: EventQuery): boolean {
  const { gt, gte, lt, lte } = created;
  if (types !== undefined && !types.has(type)) return false;
  if ((gt !== undefined && time <= gt) || (gte !== undefined && time < gte)) return false;
  return (lt === undefined || time < lt) && (lte === undefined || time <= lte);
}

function isLater({ time }: Framed, { lt, lte }: TimeRange = {}): boolean {
  return (lt !== undefined && time >= lt) || (lte !== undefined && time > lte);
}

function isEarlier({ time }: Framed, { gt, gte }: TimeRange = {}): boolean {
  return (gt !== undefined && time <= gt) || (gte !== undefined && time < gte);
}

function readTime(json: string): number {
  const { time, processed_at } = JSON.parse(json) as { time?: string; processed_at?: string };
  return Date.parse(time ?? processed_at ?? "");
}
