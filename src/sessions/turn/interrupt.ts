import { defined } from "../../contract/own-keys.ts";
import type { SessionContext } from "../context.ts";
import { isLate } from "../lock.ts";
import type { InterruptOptions } from "../port.ts";
import { endWithdrawn } from "../process/ending.ts";
import type { Runner } from "../process/runner.ts";
import { toDue, type Due } from "../upkeep/alarms.ts";
import { engineFailureEvents } from "./engine-failure.ts";
import type { TurnEnds } from "./turn-end.ts";

/** How many times a signal or a kill is delayed while output is unread. */
const PATIENCE = 10;

export interface Interruptible {
  readonly context: SessionContext;
  readonly runner: Runner;
  readonly turnEnds: TurnEnds;
  sleep(): Promise<void>;
}

/** Resolves when the turn has ended; with `stop`, when the agent's process has ended as well. */
export async function interrupt(
  { context, runner, turnEnds, sleep }: Interruptible,
  { by, turnId, stop = false }: InterruptOptions = {},
): Promise<{ turnId?: string }> {
  const { deps, writer, exclusive } = context;
  // A frozen agent cannot react to an interrupt.
  await runner.resume();
  const interrupted = await exclusive(async () => {
    const { turn, inbox } = writer.fold;
    const queued = !turn && runner.isBooting ? inbox[0]?.turnId : undefined;
    const isQueuedWanted = turnId === undefined || turnId === queued;
    if (queued !== undefined && isQueuedWanted) return withdraw(context, runner, queued);
    if (!turn || (turnId !== undefined && turn.id !== turnId)) return undefined;
    const ended = turnEnds.of(turn.id);
    await requestInterrupt(context, by);
    return { turnId: turn.id, ended };
  });
  if (!interrupted) return {};
  // With `stop`, the agent gets a moment to finish its output, and no more.
  if (stop && (await isLate(interrupted.ended, deps.limits.stopMs))) await runner.kill();
  await interrupted.ended;
  if (stop) await sleep();
  return { turnId: interrupted.turnId };
}

/** Asks the running turn to stop; call it under the lock. `by` names a limit of the engine, or the client. */
export async function requestInterrupt(
  { writer, commit }: SessionContext,
  by: string | undefined,
): Promise<void> {
  const { turn } = writer.fold;
  if (!turn || turn.interrupt) return;
  const data = { turn_id: turn.id, ...defined({ by }) };
  const request = { type: "interrupt.requested", source: "daemon", data } as const;
  await commit(writer.drafts([...engineFailureEvents(turn, by), request]));
}

/** An agent that ignores an interrupt gets a signal; one that ignores the signal is killed. */
export function escalationOf({ at }: { at: number }, { interruptMs }: { interruptMs: number }): Due[] {
  return [toDue("signal", at, interruptMs), toDue("kill", at, 2 * interruptMs)];
}

/**
 * Stops an agent that ignored the interrupt. First waits a limited time for its unread output to be read, as the turn's
 * end may be in it.
 */
export async function forceInterrupt(
  { deps, writer, isClosed }: SessionContext,
  runner: Runner,
  { how, turnId }: { how: "signal" | "kill"; turnId: string | undefined },
): Promise<void> {
  // The turn may end while this waits, and the next turn must not be stopped.
  const isOver = (): boolean => writer.fold.turn?.id !== turnId || isClosed();
  for (let patience = PATIENCE; patience > 0 && (await runner.isBehind()); patience -= 1) {
    if (isOver()) return;
    await new Promise((resolve) => setTimeout(resolve, deps.limits.interruptMs));
  }
  if (isOver()) return;
  return how === "kill" ? runner.kill() : runner.signal("SIGINT");
}

/** Gives up the message whose start is queued. The next message keeps the position in the queue. */
async function withdraw(
  { writer, commit }: SessionContext,
  runner: Runner,
  turnId: string,
): Promise<{ turnId: string; ended: Promise<void> }> {
  const drafts = writer.drafts();
  endWithdrawn(writer.fold, drafts);
  await commit(drafts);
  if (writer.fold.inbox.length === 0) runner.withdraw();
  return { turnId, ended: Promise.resolve() };
}
