import { type SluiceEvent, SluiceError } from "../../contract/index.ts";
import { agUi, type AgUiView, type FramePlace } from "../../dialects/ag-ui/index.ts";
import { fromPayload, isRun, RUN_EVENT, type RunPayload } from "../../dialects/ag-ui/payload.ts";
import type { EventLog, SessionRow } from "../../log/port.ts";
import { assertCursor } from "../cursor.ts";
import { readStateAt } from "../rewind.ts";
import type { AgUiServices } from "./services.ts";
import { findSession } from "./thread.ts";
import { findTurnSession, findTurnStart } from "./turn-place.ts";

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

/** In its thread, where that is given: ids of runs are the clients' own, and may be the same in two threads. */
export async function findRun(
  services: AgUiServices,
  { agent, threadId, runId }: { agent: string; threadId?: string | undefined; runId: string },
): Promise<{ row: SessionRow; start: number } | undefined> {
  const { log } = services.engine;
  const session =
    threadId === undefined
      ? ((await services.runs.find(runId)) ?? (await findTurnSession(log, toTurnId(runId))))
      : await findSession(services, threadId);
  const row = session === undefined ? undefined : await log.find(session);
  if (row?.spec.agent !== agent) return undefined;
  const start = await findRunStart(log, row, runId);
  return start === undefined ? undefined : { row, start };
}

/** The sequence before the run's first event; undefined where the session has no such run. */
export async function findRunStart(
  log: EventLog,
  row: SessionRow,
  runId: string,
): Promise<number | undefined> {
  const known = await log.recall(row.id, keyOf(runId));
  if (known) return (JSON.parse(known.answer) as Begun).after;
  const turnId = toTurnId(runId);
  return turnId === undefined ? undefined : findTurnStart(log, row, turnId);
}

/** The turn that a run began; undefined for one that an answer began, or that there is not. */
export async function findRunTurn(
  log: EventLog,
  row: SessionRow,
  runId: string,
): Promise<string | undefined> {
  const known = await log.recall(row.id, keyOf(runId));
  if (!known) return toTurnId(runId);
  return (JSON.parse(known.answer) as Begun).accepted[0]?.turnId;
}

/** Whether the run was begun so that it ends with its client. */
export async function isCancelledByLeaving(
  log: EventLog,
  row: SessionRow,
  { runId, start }: { runId: string; start: number },
): Promise<boolean> {
  if (start < row.floor) return false;
  const [first] = await log.read(row.id, { after: start, limit: 1, types: NAMING });
  const run = first && readRunPayload(JSON.parse(first.body) as SluiceEvent);
  return run?.runId === runId && run.cancelOnDisconnect === true;
}

/** The events that name a run: a session's first input comes behind the session's own beginning. */
const NAMING = new Set(["input.accepted", "custom"] as const);

function readRunPayload(event: SluiceEvent): RunPayload | undefined {
  if (event.type === "input.accepted") return fromPayload(event.data.payload);
  const isNamed = event.type === "custom" && event.data.name === RUN_EVENT;
  return isNamed && isRun(event.data.value) ? event.data.value : undefined;
}

/** What the engine answered when the run began. */
interface Begun {
  readonly after: number;
  readonly accepted: readonly ({ readonly turnId?: string } | null)[];
}

/** A run that no client of this dialect began is called by its turn. */
function toTurnId(runId: string): string | undefined {
  return /^(turn_[^.]+)(?:\.\d+)?$/.exec(runId)?.[1];
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
