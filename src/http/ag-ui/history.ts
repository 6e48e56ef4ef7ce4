import { agUi, type AgUiState, type AgUiView } from "../../dialects/ag-ui/index.ts";
import { type AgUiMessage, toMessages } from "../../dialects/ag-ui/messages.ts";
import type { EventLog, SessionRow, StoredEvent } from "../../log/port.ts";
import { readTurnStart } from "../rewind.ts";

export interface ToldEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** All that one turn has to tell, without any run's filter. */
export interface ToldTurn {
  /** The last sequence of it that was read. */
  readonly through: number;
  readonly told: readonly ToldEvent[];
  readonly state: AgUiState;
}

/** The turns up to a place, newest first: whoever wants the last messages reads the last turns alone. */
export async function* readTurnsBack(
  log: EventLog,
  row: SessionRow,
  view: AgUiView,
  cursor: number = row.head,
): AsyncGenerator<ToldTurn, void> {
  const { run: _, ...all } = view;
  for (let through = cursor; through > row.floor;) {
    const after = Math.max(row.floor, await readTurnStart(log, row.id, through));
    yield { through, ...(await readTold(log, { session: row.id, after, through }, all)) };
    through = after;
  }
}

/** All that was told up to the head: the messages of the whole thread, and the events of its last turn. */
export interface Past {
  readonly messages: readonly AgUiMessage[];
  readonly turn: readonly ToldEvent[];
}

export async function readPast(log: EventLog, row: SessionRow, view: AgUiView): Promise<Past> {
  const turns: AgUiMessage[][] = [];
  let turn: readonly ToldEvent[] | undefined;
  for await (const { told } of readTurnsBack(log, row, view)) {
    turn ??= told;
    turns.unshift(toMessages(told));
  }
  return { messages: turns.flat(), turn: turn ?? [] };
}

async function readTold(
  log: EventLog,
  range: { session: string; after: number; through: number },
  view: AgUiView,
): Promise<Omit<ToldTurn, "through">> {
  // A turn's start is a clean cut: nothing before it is needed.
  let state = agUi.initial(view);
  const told: ToldEvent[] = [];
  for (let { after } = range; after < range.through;) {
    const limit = Math.min(512, range.through - after);
    const events = await log.read(range.session, { after, limit });
    if (events.length === 0) break;
    for (const event of events) {
      const projected = agUi.project(state, event);
      state = projected.state;
      for (const { data } of projected.frames) told.push(JSON.parse(data) as ToldEvent);
    }
    after = (events.at(-1) as StoredEvent).sequence;
  }
  return { told, state };
}
