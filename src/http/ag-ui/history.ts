import { SluiceError } from "../../contract/index.ts";
import { agUi, type AgUiInterrupt, type AgUiState, type AgUiView } from "../../dialects/ag-ui/index.ts";
import { toInterrupt } from "../../dialects/ag-ui/interrupts.ts";
import { type AgUiMessage, toMessages, toUiMessages, type UiMessage } from "../../dialects/ag-ui/messages.ts";
import type { EventLog, SessionRow, StoredEvent } from "../../log/port.ts";
import { assertCursor, readTurnStart } from "../stream/cursor.ts";
import { type AgUiServices, findSession } from "./thread.ts";
import type { ReadQuery } from "./view.ts";

export interface AgUiEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** The events of one turn, of all its runs. */
interface TurnEvents {
  /** The last sequence that was read. */
  readonly through: number;
  readonly events: readonly AgUiEvent[];
  readonly state: AgUiState;
}

/** The turns up to a cursor, newest first: a page of the last messages reads only the last turns. */
export async function* readTurnsBack(
  log: EventLog,
  row: SessionRow,
  view: AgUiView,
  cursor: number = row.head,
): AsyncGenerator<TurnEvents, void> {
  const { run: _, ...all } = view;
  for (let through = cursor; through > row.floor;) {
    const after = Math.max(row.floor, await readTurnStart(log, row.id, through));
    yield { through, ...(await readEvents(log, { session: row.id, after, through }, all)) };
    through = after;
  }
}

/** A thread up to its head: all of its messages, and the events of its last turn. */
export interface Past {
  readonly messages: readonly AgUiMessage[];
  readonly turn: readonly AgUiEvent[];
}

export async function readPast(log: EventLog, row: SessionRow, view: AgUiView): Promise<Past> {
  const turns: AgUiMessage[][] = [];
  let turn: readonly AgUiEvent[] | undefined;
  for await (const { events } of readTurnsBack(log, row, view)) {
    turn ??= events;
    turns.unshift(toMessages(events));
  }
  return { messages: turns.flat(), turn: turn ?? [] };
}

async function readEvents(
  log: EventLog,
  range: { session: string; after: number; through: number },
  view: AgUiView,
): Promise<Omit<TurnEvents, "through">> {
  // No state outlives its turn, so each turn begins with the initial one.
  let state = agUi.initial(view);
  const found: AgUiEvent[] = [];
  for (let { after } = range; after < range.through;) {
    const limit = Math.min(512, range.through - after);
    const events = await log.read(range.session, { after, limit });
    if (events.length === 0) break;
    for (const event of events) {
      const projected = agUi.project(state, event);
      state = projected.state;
      for (const { data } of projected.frames) found.push(JSON.parse(data) as AgUiEvent);
    }
    after = (events.at(-1) as StoredEvent).sequence;
  }
  return { events: found, state };
}

/** TanStack's `page`: whether there are older messages, and their cursor. */
export type Page = { readonly truncated: false } | { readonly truncated: true; readonly cursor: string };

interface MessagePage {
  readonly messages: readonly UiMessage[];
  readonly page: Page;
}

/** The last messages before a cursor; all of them without a limit. Reads only their turns. */
async function readMessagePage(
  log: EventLog,
  row: SessionRow,
  view: AgUiView,
  { limit = Number.POSITIVE_INFINITY, before }: { limit?: number | undefined; before?: string | undefined },
): Promise<MessagePage> {
  const position = before === undefined ? undefined : parsePageCursor(before);
  if (position) assertCursor(row, position.through);
  const turns: UiMessage[][] = [];
  let room = limit;
  let older = position?.count;
  for await (const { through, events } of readTurnsBack(log, row, view, position?.through)) {
    const messages = toUiMessages(withoutLiveRun(events)).slice(0, older);
    older = undefined;
    if (messages.length > room) {
      const count = messages.length - room;
      turns.unshift(messages.slice(count));
      return { messages: turns.flat(), page: { truncated: true, cursor: `${through}.${count}` } };
    }
    turns.unshift(messages);
    room -= messages.length;
  }
  return { messages: turns.flat(), page: { truncated: false } };
}

/** The turn that ends at `through`, and how many of its messages are older than the page. */
function parsePageCursor(cursor: string): { through: number; count: number } {
  const [, through, count] = /^(\d{1,15})\.(\d{1,9})$/.exec(cursor) ?? [];
  if (through === undefined)
    throw new SluiceError(
      "invalid_cursor",
      `${JSON.stringify(cursor.slice(0, 80))} is not the cursor of a page. Use the cursor of the previous page unchanged.`,
    );
  return { through: Number(through), count: Number(count) };
}

/** Drops the output of a live run: the client gets it by joining the run. The user's message that began it stays. */
function withoutLiveRun(events: readonly AgUiEvent[]): readonly AgUiEvent[] {
  const begun = events.findLastIndex(({ type }) => type === "RUN_STARTED");
  const isOver = events.slice(begun).some(({ type }) => type === "RUN_FINISHED" || type === "RUN_ERROR");
  if (begun === -1 || isOver) return events;
  const userMessages = new Set(
    events.flatMap(({ type, role, messageId }) =>
      type === "TEXT_MESSAGE_START" && role === "user" ? [messageId] : [],
    ),
  );
  return events.filter(
    ({ messageId }, index) => index < begun || (messageId !== undefined && userMessages.has(messageId)),
  );
}

interface Hydration {
  readonly messages: readonly UiMessage[];
  readonly activeRun: { readonly runId: string } | null;
  readonly interrupts: { readonly runId: string; readonly pending: readonly AgUiInterrupt[] } | null;
  readonly page: Page;
}

/** The state that a reopened page shows. The messages end before a live run, which the page joins from its start. */
export async function hydrate(
  services: AgUiServices,
  agent: string,
  { threadId, limit, before }: ReadQuery & { threadId: string },
): Promise<Hydration> {
  const { log } = services.engine;
  const row = await log.find(await findSession(services, threadId));
  if (row?.spec.agent !== agent)
    return { messages: [], activeRun: null, interrupts: null, page: { truncated: false } };
  const view: AgUiView = { agent: row.spec.agent, thread: threadId, inputs: true };
  const { value: last } = await readTurnsBack(log, row, view).next();
  const { run = null, asks = {} } = last?.state ?? {};
  const { messages, page } = await readMessagePage(log, row, view, { limit, before });
  if (run) return { messages, activeRun: { runId: run.id }, interrupts: null, page };
  const open = Object.entries(asks).flatMap(([id, ask]) =>
    ask.kind === "tool" ? [] : [{ id, ask: { ...ask, kind: ask.kind } }],
  );
  if (open.length === 0) return { messages, activeRun: null, interrupts: null, page };
  // Open requests belong to the last turn, so its last run is the interrupted one.
  const finished = last?.events.findLast(({ type }) => type === "RUN_FINISHED");
  const runId = String(finished?.["runId"] ?? "");
  const pending = open.map(({ id, ask }) => toInterrupt(id, ask, runId));
  return { messages, activeRun: null, interrupts: { runId, pending }, page };
}
