import { SluiceError } from "../../contract/index.ts";
import type { SessionRow } from "../../log/port.ts";
import { interruptTurn } from "../interrupt.ts";
import { readTurnsBack } from "./history.ts";
import { findRun, findRunTurn } from "./run-position.ts";
import { type AgUiServices, readRow, readThreadRow } from "./thread.ts";

/** Ends the named run of this agent, or the live one of the thread. An ended run does not change. */
export async function stopNamedRun(
  services: AgUiServices,
  named: { agent: string; threadId?: string | undefined; runId?: string | undefined },
): Promise<void> {
  const { agent, threadId, runId } = named;
  if (runId !== undefined) {
    const found = await findRun(services, { agent, threadId, runId });
    if (!found) throw new SluiceError("not_found", `There is no run ${runId}.`, { runId });
    return stopRun(services, found.row, runId);
  }
  if (threadId === undefined) throw namesNeither();
  return stopRun(services, await readThreadRow(services, agent, threadId));
}

export function namesNeither(): SluiceError {
  const detail = "The request names neither threadId nor runId. Send one of them, or both.";
  return new SluiceError("invalid_request", detail);
}

/** Ends a run whose client has left. */
export async function leaveRun(services: AgUiServices, session: string, runId: string): Promise<void> {
  try {
    await stopRun(services, await readRow(services.engine, session), runId);
  } catch (error) {
    if (error instanceof SluiceError && UNLOGGED.has(error.code)) return;
    const message = "A run that its client left could not be cancelled";
    services.logger({ level: "warn", message, session, run: runId, error: String(error) });
  }
}

/** Errors that are not logged: the server stops, or the session is gone and has no run to cancel. */
const UNLOGGED: ReadonlySet<string> = new Set(["draining", "session_not_found"]);

async function stopRun({ engine }: AgUiServices, row: SessionRow, runId?: string): Promise<void> {
  const turn = await findTurnToStop(engine, row, runId);
  if (turn !== undefined) await interruptTurn(engine, { session: row.id, turn, by: "ag-ui" });
}

/**
 * The turn of the named run, if the run is the last one of a turn that runs, waits for answers, or is queued. Without a
 * name, the turn that runs or waits, else the first queued one.
 */
async function findTurnToStop(
  engine: AgUiServices["engine"],
  row: SessionRow,
  runId: string | undefined,
): Promise<string | undefined> {
  const queued = await engine.inbox(row.id);
  if (runId !== undefined) {
    const named = await findRunTurn(engine.log, row, runId);
    if (queued.some(({ turnId }) => turnId === named)) return named;
  }
  const { value: last } = await readTurnsBack(engine.log, row, { agent: row.spec.agent }).next();
  if (!last || last.state.turn === null) return runId === undefined ? queued[0]?.turnId : undefined;
  const { run, next, turn } = last.state;
  // A turn that waits for answers has no open run: its last run is the one that asked.
  const asked = last.events.findLast(({ type }) => type === "RUN_FINISHED")?.["runId"];
  const live = run?.id ?? next?.runId ?? asked;
  return runId === undefined || live === runId ? turn : undefined;
}
