import type { TimeRange } from "../../../catalog/port.ts";
import { toEventId } from "../../../dialects/anthropic/ids.ts";
import { anthropic, LISTED_TYPES } from "../../../dialects/anthropic/project.ts";
import { toSentEvents, toUserMessage } from "../../../dialects/anthropic/projection.ts";
import type { AnthropicState } from "../../../dialects/anthropic/state.ts";
import type { EventLog, StoredEvent } from "../../../log/port.ts";
import type { Engine } from "../../../sessions/port.ts";
import { readStateAt, readTurnStart, seekTime } from "../../stream/cursor.ts";
import { readPage, type Order, type Stretch } from "../page.ts";

export interface EventQuery {
  readonly list: string;
  readonly order: Order;
  readonly limit: number;
  readonly page?: string | undefined;
  readonly types?: ReadonlySet<string> | undefined;
  readonly created?: TimeRange | undefined;
}

/** An event of the list. */
interface Listed {
  readonly position: number;
  readonly data: string;
}

/** A page of a session's events, each one once, in the order of processing. */
export async function readEventPage(
  engine: Engine,
  session: string,
  query: EventQuery,
): Promise<{ data: readonly string[]; next_page: string | null }> {
  const { items, next_page } = await readPage(
    query,
    (stretch) => readListed(engine, session, { query, stretch }),
    ({ position }) => position,
  );
  return { data: items.map(({ data }) => data), next_page };
}

// A position combines the sequence of an event with the number of its frame. Queued input comes last.
const FRAMES_PER_EVENT = 4096;
const QUEUE_START = 2 ** 52;
const PAGE = 512;
const VIEW = { list: true };

interface ListRequest {
  readonly query: EventQuery;
  readonly stretch: Stretch;
}

async function readListed(engine: Engine, session: string, request: ListRequest): Promise<Listed[]> {
  const { order, limit } = request.stretch;
  const found: Listed[] = [];
  const queued = async (): Promise<void> => {
    for (const one of await readQueued(engine, session, request)) if (found.length < limit) found.push(one);
  };
  if (order === "desc") await queued();
  if (found.length < limit) {
    const source =
      order === "asc" ? readForth(engine.log, session, request) : readBack(engine.log, session, request);
    for await (const one of source) {
      found.push(one);
      if (found.length === limit) return found;
    }
  }
  if (order === "asc") await queued();
  return found;
}

async function* readForth(
  log: EventLog,
  session: string,
  { query, stretch }: ListRequest,
): AsyncGenerator<Listed> {
  const row = await log.find(session);
  if (!row || (stretch.after ?? 0) >= QUEUE_START) return;
  const from = stretch.after ?? -1;
  const earliest = earliestOf(query.created);
  const begin = Math.max(
    row.floor,
    Math.floor(from / FRAMES_PER_EVENT) - 1,
    earliest === undefined ? row.floor : await seekTime(log, row, earliest),
  );
  const source = { session, dialect: anthropic, view: VIEW };
  let state = await readStateAt(log, source, begin);
  for (let after = begin; ;) {
    const events = await log.read(session, { after, limit: PAGE, types: LISTED_TYPES });
    for (const event of events) {
      const projected = project(state, event);
      state = projected.state;
      for (const one of projected.frames) {
        if (isLater(one, query.created)) return;
        if (one.position > from && fits(one, query)) yield one;
      }
    }
    const last = events.at(-1);
    if (!last) return;
    after = last.sequence;
  }
}

/** Reads turn by turn from the end. A projection works only forwards: each turn is projected, then its frames are reversed. */
async function* readBack(
  log: EventLog,
  session: string,
  { query, stretch }: ListRequest,
): AsyncGenerator<Listed> {
  const row = await log.find(session);
  if (!row) return;
  const before =
    stretch.after === undefined || stretch.after >= QUEUE_START ? Number.POSITIVE_INFINITY : stretch.after;
  const head = Math.min(row.head, Math.floor(before / FRAMES_PER_EVENT));
  for (let end = head; end > row.floor;) {
    const begin = await readTurnStart(log, session, end);
    const turn = await readTurn(log, session, { begin, end });
    for (const one of turn.toReversed()) {
      if (isEarlier(one, query.created)) return;
      if (one.position < before && fits(one, query)) yield one;
    }
    end = begin;
  }
}

/** The frames of one turn. The state of a projection does not outlive its turn, so each turn begins with the initial one. */
async function readTurn(
  log: EventLog,
  session: string,
  { begin, end }: { begin: number; end: number },
): Promise<Framed[]> {
  let state = anthropic.initial(VIEW);
  const turn: Framed[] = [];
  for (let after = begin; after < end;) {
    const events = await log.read(session, { after, limit: PAGE, types: LISTED_TYPES });
    for (const event of events) {
      if (event.sequence > end) return turn;
      const projected = project(state, event);
      state = projected.state;
      turn.push(...projected.frames);
    }
    const last = events.at(-1);
    if (!last) return turn;
    after = last.sequence;
  }
  return turn;
}

interface Framed extends Listed {
  readonly type: string;
  readonly time: number;
}

function project(state: AnthropicState, event: StoredEvent): { state: AnthropicState; frames: Framed[] } {
  const projected = anthropic.project(state, event);
  const frames = projected.frames.map(({ event: type = "", data }, index) => ({
    position: event.sequence * FRAMES_PER_EVENT + index,
    data,
    type,
    time: readTime(data),
  }));
  return { state: projected.state, frames };
}

/** Queued input has no time of processing, so it is in no range of time. */
async function readQueued(
  engine: Engine,
  session: string,
  { query, stretch }: ListRequest,
): Promise<Listed[]> {
  const { types, created = {} } = query;
  const isRanged = Object.values(created).some((bound) => bound !== undefined);
  const { after, order } = stretch;
  if (isRanged || (order === "desc" && after !== undefined && after < QUEUE_START)) return [];
  const inputs = await engine.inbox(session);
  const queued = inputs.flatMap(({ sequence, payload, replaced, content }) =>
    sequence === undefined
      ? []
      : (replaced ? [toUserMessage(content)] : toSentEvents(payload)).map((event, index) => ({
          position: QUEUE_START + sequence * FRAMES_PER_EVENT + index,
          type: event.type,
          data: JSON.stringify({ ...event, id: toEventId(session, sequence, index), processed_at: null }),
        })),
  );
  const wanted = queued.filter(({ type }) => types === undefined || types.has(type));
  if (order === "asc") return wanted.filter(({ position }) => position > (after ?? -1));
  return wanted.filter(({ position }) => after === undefined || position < after).toReversed();
}

function earliestOf({ gt, gte }: TimeRange = {}): number | undefined {
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
  const { processed_at } = JSON.parse(json) as { processed_at?: string };
  return Date.parse(processed_at ?? "");
}
