import { type EventOf, SluiceError } from "../../contract/index.ts";
import { agUi, type AgUiView, type FramePlace } from "../../dialects/ag-ui/index.ts";
import type { EventLog, SessionRow } from "../../log/port.ts";
import { assertCursor } from "../cursor.ts";
import { readStateAt } from "../rewind.ts";

/** The key under which a run is remembered with the input or the answers that began it. */
export function keyOf(runId: string): string {
  return `ag-ui:${runId}`;
}

/** Where to read a run from. */
export interface RunPlace {
  readonly after: number;
  readonly view: AgUiView;
  /** It was read to its end already. */
  readonly isOver: boolean;
}

/** The sequence before the run's first event; undefined where the session has no such run. */
export async function findRunStart(
  log: EventLog,
  row: SessionRow,
  runId: string,
): Promise<number | undefined> {
  const known = await log.recall(row.id, keyOf(runId));
  if (known) return (JSON.parse(known.answer) as { after: number }).after;
  const [, turnId] = /^(turn_[^.]+)(?:\.\d+)?$/.exec(runId) ?? [];
  return turnId === undefined ? undefined : findTurnStart(log, row, turnId);
}

/** Behind what the reader has seen, or at the beginning; a place that is no more is an error, never silence. */
export async function findPlace(
  log: EventLog,
  row: SessionRow,
  run: { start: number; view: AgUiView; seen: FramePlace | undefined },
): Promise<RunPlace> {
  const { start, view, seen } = run;
  if (!seen) {
    assertCursor(row, start);
    return { after: start, view, isOver: false };
  }
  const { sequence, index } = seen;
  assertCursor(row, sequence);
  if (sequence <= start)
    throw new SluiceError("cursor_gone", `${sequence} lies before the run that it should be of.`, {
      cursor: sequence,
    });
  if (index !== undefined)
    return { after: sequence - 1, view: { ...view, behind: { sequence, index } }, isOver: false };
  return { after: sequence, view, isOver: await hasEnded(log, row, { start, view, sequence }) };
}

/** Whether the run's last event is among those up to here. */
async function hasEnded(
  log: EventLog,
  row: SessionRow,
  { start, view, sequence }: { start: number; view: AgUiView; sequence: number },
): Promise<boolean> {
  let state = await readStateAt(log, { session: row.id, dialect: agUi, view }, start);
  for (let after = start; after < sequence;) {
    const events = await log.read(row.id, { after, limit: Math.min(PAGE, sequence - after) });
    if (events.length === 0) return false;
    for (const event of events) {
      const told = agUi.project(state, event);
      if (told.last) return true;
      state = told.state;
      after = event.sequence;
    }
  }
  return false;
}

const PAGE = 1024;
const STARTS = new Set(["turn.started"] as const);

/** Backwards from the head: who asks for a run asks for one of the last. */
async function findTurnStart(log: EventLog, row: SessionRow, turnId: string): Promise<number | undefined> {
  for (let end = row.head; end > row.floor; end -= PAGE) {
    const begin = Math.max(row.floor, end - PAGE);
    const page = await log.read(row.id, { after: begin, limit: end - begin, types: STARTS });
    for (const { sequence, body } of page) {
      if (sequence > end) break;
      if ((JSON.parse(body) as EventOf<"turn.started">).data.turn_id === turnId) return sequence - 1;
    }
  }
  return undefined;
}
