import { SluiceError, type SluiceEvent, toIdTime } from "../../contract/index.ts";
import { agUi, type AgUiView, type FramePosition } from "../../dialects/ag-ui/index.ts";
import { fromPayload, isRun, RUN_EVENT, type RunPayload } from "../../dialects/ag-ui/state.ts";
import type { EventLog, SessionRow } from "../../log/port.ts";
import { assertCursor, readStateAt, seekTime } from "../stream/cursor.ts";
import { type AgUiServices, findSession } from "./thread.ts";

/** The idempotency key of the input or the answers that began a run. */
export function keyOf(runId: string): string {
  return `ag-ui:${runId}`;
}

/** The position that a run is read from. */
interface RunPosition {
  readonly after: number;
  readonly view: AgUiView;
  /** The reader has seen all of the run. */
  readonly isReadToEnd: boolean;
}

/**
 * The session of a run, and the sequence before the run. Searches only the given thread, if any: clients choose the ids
 * of runs, and two threads may use the same id.
 */
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

/** The sequence before the run's first event; undefined if the session has no such run. */
export async function findRunStart(
  log: EventLog,
  row: SessionRow,
  runId: string,
): Promise<number | undefined> {
  const known = await log.recall(row.id, keyOf(runId));
  if (known) return (JSON.parse(known.answer) as RunStart).after;
  const turnId = toTurnId(runId);
  return turnId === undefined ? undefined : findTurnStart(log, row, turnId);
}

/** The turn that a run began; undefined if an answer began the run, or if it is unknown. */
export async function findRunTurn(
  log: EventLog,
  row: SessionRow,
  runId: string,
): Promise<string | undefined> {
  const known = await log.recall(row.id, keyOf(runId));
  if (!known) return toTurnId(runId);
  return (JSON.parse(known.answer) as RunStart).accepted[0]?.turnId;
}

/** Whether the run ends when its client leaves. */
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

/** The types of events that name a run. */
const NAMING = new Set(["input.accepted", "custom"] as const);

function readRunPayload(event: SluiceEvent): RunPayload | undefined {
  if (event.type === "input.accepted") return fromPayload(event.data.payload);
  const isNamed = event.type === "custom" && event.data.name === RUN_EVENT;
  return isNamed && isRun(event.data.value) ? event.data.value : undefined;
}

/** The engine's answer to the start of a run. */
interface RunStart {
  readonly after: number;
  readonly accepted: readonly ({ readonly turnId?: string } | null)[];
}

/** A run that another dialect began has the id of its turn; a later run of that turn adds a number. */
function toTurnId(runId: string): string | undefined {
  return /^(turn_[^.]+)(?:\.\d+)?$/.exec(runId)?.[1];
}

/** The position after the last frame that was seen, or the start. Throws if the log no longer has the position. */
export async function findPosition(
  log: EventLog,
  row: SessionRow,
  run: { start: number; view: AgUiView; seen: FramePosition | undefined },
): Promise<RunPosition> {
  const { start, view, seen } = run;
  if (!seen) {
    assertCursor(row, start);
    return { after: start, view, isReadToEnd: false };
  }
  const { sequence, index } = seen;
  assertCursor(row, sequence);
  if (sequence <= start)
    throw new SluiceError(
      "cursor_gone",
      `The frame ${sequence} is older than the run. Send the id of a frame of this run.`,
      {
        cursor: sequence,
      },
    );
  if (index !== undefined)
    return { after: sequence - 1, view: { ...view, behind: { sequence, index } }, isReadToEnd: false };
  return { after: sequence, view, isReadToEnd: await hasEnded(log, row, { start, view, sequence }) };
}

/** Whether the run ends at this sequence or before. */
async function hasEnded(
  log: EventLog,
  row: SessionRow,
  { start, view, sequence }: { start: number; view: AgUiView; sequence: number },
): Promise<boolean> {
  let state = await readStateAt(log, { session: row.id, dialect: agUi, view }, start);
  for (let after = start; after < sequence;) {
    const events = await log.read(row.id, { after, limit: Math.min(1024, sequence - after) });
    if (events.length === 0) return false;
    for (const event of events) {
      const projected = agUi.project(state, event);
      if (projected.last) return true;
      state = projected.state;
      after = event.sequence;
    }
  }
  return false;
}

const PAGE = 100;
const MAX_SEARCHED = 10_000;
/** The time of a batch may differ a little from the times in its ids. */
const MARGIN_MS = 60_000;
const STARTS = new Set(["input.accepted", "turn.started"] as const);

/** The session of a turn. The time in its id narrows the search to sessions of that time. */
async function findTurnSession(log: EventLog, turnId: string | undefined): Promise<string | undefined> {
  const time = turnId === undefined ? undefined : toIdTime(turnId);
  if (turnId === undefined || time === undefined) return undefined;
  for (let before: number | undefined, seen = 0; seen < MAX_SEARCHED; seen += PAGE) {
    const rows = await log.list({ limit: PAGE, ...(before === undefined ? {} : { before }) });
    for (const row of rows) {
      const isOfThatTime = row.createdAt <= time + MARGIN_MS && row.updatedAt >= time - MARGIN_MS;
      if (isOfThatTime && (await findTurnStart(log, row, turnId)) !== undefined) return row.id;
    }
    before = rows.at(-1)?.ordinal;
    if (rows.length < PAGE) return undefined;
  }
  return undefined;
}

/** The sequence before the turn's start. The search begins at the time in its id. */
async function findTurnStart(log: EventLog, row: SessionRow, turnId: string): Promise<number | undefined> {
  const time = toIdTime(turnId);
  if (time === undefined) return undefined;
  let isAccepted = false;
  for (let after = await seekTime(log, row, time - MARGIN_MS); after < row.head;) {
    const events = await log.read(row.id, { after, limit: PAGE, types: STARTS });
    if (events.length === 0) return undefined;
    for (const { sequence, body } of events) {
      const event = JSON.parse(body) as SluiceEvent;
      if (event.type === "turn.started" && event.data.turn_id === turnId) return sequence - 1;
      if (event.type === "input.accepted" && event.data.turn_id === turnId) isAccepted = true;
      // The input of the turn is accepted at the time in the id. Only the start of the turn may be much later.
      if (!isAccepted && Date.parse(event.time) > time + MARGIN_MS) return undefined;
      after = sequence;
    }
  }
  return undefined;
}
