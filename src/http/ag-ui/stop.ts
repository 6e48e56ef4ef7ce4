import { SluiceError } from "../../contract/index.ts";
import type { SessionRow } from "../../log/port.ts";
import { hasTurnStarted } from "../turn-start.ts";
import { readTurnsBack } from "./history.ts";
import { findRun, findRunTurn } from "./run-place.ts";
import type { AgUiServices } from "./services.ts";
import { readRow, readThreadRow } from "./thread.ts";

/** Ends the named run of this agent, or the live one of the thread; a run that is over stays as it is. */
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
  if (threadId === undefined)
    throw new SluiceError("invalid_request", "Say which: threadId, runId, or both.");
  return stopRun(services, await readThreadRow(services, agent, threadId));
}

/** Its client has gone. */
export async function leaveRun(services: AgUiServices, session: string, runId: string): Promise<void> {
  try {
    await stopRun(services, await readRow(services.engine, session), runId);
  } catch (error) {
    if (error instanceof SluiceError && QUIET.has(error.code)) return;
    const message = "A run that its client left could not be cancelled";
    services.logger({ level: "warn", message, session, run: runId, error: String(error) });
  }
}

/** The server stops, or the session has gone: there is nothing to cancel. */
const QUIET: ReadonlySet<string> = new Set(["draining", "session_not_found"]);

async function stopRun({ engine }: AgUiServices, row: SessionRow, runId?: string): Promise<void> {
  const turn = await findLiveTurn(engine, row, runId);
  if (turn === undefined) return;
  const { signal } = new AbortController();
  if (await hasTurnStarted(engine, { session: row.id, turn }, signal))
    await engine.interrupt(row.id, { by: "ag-ui", turnId: turn, stop: true });
}

/** The turn of this run, where it is the last run of a turn that works, waits for answers, or will start. */
async function findLiveTurn(
  engine: AgUiServices["engine"],
  row: SessionRow,
  runId: string | undefined,
): Promise<string | undefined> {
  const queued = await engine.inbox(row.id);
  const wanted = runId === undefined ? queued[0]?.turnId : await findRunTurn(engine.log, row, runId);
  if (queued.some(({ turnId }) => turnId === wanted)) return wanted;
  const { value: last } = await readTurnsBack(engine.log, row, { agent: row.spec.agent }).next();
  if (!last || last.state.turn === null) return undefined;
  const { run, next, turn } = last.state;
  // A turn that waits for answers has no open run: its last one is the one that asked.
  const asked = last.told.findLast(({ type }) => type === "RUN_FINISHED")?.["runId"];
  const live = run?.id ?? next?.runId ?? asked;
  return runId === undefined || live === runId ? turn : undefined;
}
