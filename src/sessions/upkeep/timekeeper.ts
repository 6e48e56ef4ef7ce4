import type { SessionSpec } from "../../contract/index.ts";
import type { SessionContext } from "../context.ts";
import type { Limits } from "../deps.ts";
import { isResting, type SessionFold } from "../fold/session-fold.ts";
import { idleEndOf, type RestingAgent } from "../process/idle.ts";
import type { Runner } from "../process/runner.ts";
import { escalationOf, forceInterrupt, requestInterrupt } from "../turn/interrupt.ts";
import { minutesDue } from "../turn/budget.ts";
import { timeLimitsOf } from "../turn/time-limit.ts";
import { Alarms, type Due } from "./alarms.ts";

/** The timed actions of a session: retries, time limits, force after an ignored interrupt, the end of an idle agent. */
export class Timekeeper {
  readonly #context: SessionContext;
  readonly #runner: Runner;
  readonly #sleep: () => Promise<void>;
  readonly #alarms = new Alarms();
  readonly #agent: RestingAgent;

  constructor(context: SessionContext, runner: Runner, sleep: () => Promise<void>) {
    this.#context = context;
    this.#runner = runner;
    this.#sleep = sleep;
    this.#agent = {
      get isBusy() {
        return context.isBusy();
      },
      sleep: () => context.inBackground(sleep()),
    };
  }

  /** Sets the alarms that follow from the log now; none for a closed session. */
  set(): void {
    const { deps, writer, isClosed, inBackground } = this.#context;
    const { spec, fold, lastTime } = writer;
    const { limits } = deps;
    const { turnTimeoutMs = limits.turnTimeoutMs, silenceTimeoutMs: silenceMs = limits.silenceMs } = spec;
    const hasProcess = this.#runner.process !== undefined;
    const due = isClosed()
      ? []
      : dueOf(fold, { limits: { ...limits, turnTimeoutMs, silenceMs }, hasProcess, lastTime, spec });
    deps.resting.tell(this.#agent, !isClosed() && fold.processOpen && !fold.ended && isResting(fold));
    this.#alarms.keepOnly(new Set(due.map(({ what }) => what)));
    const turnId = fold.turn?.id;
    for (const { what, ...when } of due)
      this.#alarms.set(what, when, () => inBackground(this.#ring(what, turnId, lastTime)));
  }

  async #ring(what: Due["what"], turnId: string | undefined, lastTime: number): Promise<void> {
    const { writer, exclusive, commit } = this.#context;
    const { fold } = writer;
    if (fold.turn?.id !== turnId) return;
    if (what === "sleep") return this.#sleep();
    if (what === "signal" || what === "kill") {
      return forceInterrupt(this.#context, this.#runner, { how: what, turnId });
    }
    await exclusive(async () => {
      if (!fold.turn || fold.turn.id !== turnId) return;
      // Deltas do not move the alarm, so output that came after it was set is checked here.
      if (what === "silence" && writer.lastTime > lastTime) return this.set();
      // The commit itself looks at the budget.
      if (what === "budget") return commit(writer.drafts());
      if (what === "timeout" || what === "silence") return requestInterrupt(this.#context, what);
      if (fold.turn.retry === null) return;
      const data = { turn_id: turnId, reason: "retry" } as const;
      await commit(writer.drafts([{ type: "turn.resumed", source: "daemon", data }]));
    });
  }
}

/** All timed actions that follow from the fold. Pure. */
function dueOf(
  fold: SessionFold,
  given: { limits: Limits; hasProcess: boolean; lastTime: number; spec: SessionSpec },
): Due[] {
  const { limits, hasProcess, lastTime, spec } = given;
  const { turn } = fold;
  // Time does not count for a paused session.
  if (fold.paused) return [];
  // The end of an agent's process ends everything in its sandbox, so it does not end while a command runs.
  if (!turn) return hasProcess && !fold.command ? [idleEndOf(lastTime, limits)] : [];
  if (turn.interrupt) return escalationOf(turn.interrupt, limits);
  const due: Due[] = [];
  if (typeof turn.retry?.due === "number") {
    const { due: at, since = Number.NEGATIVE_INFINITY } = turn.retry;
    due.push({ what: "retry", at, withinMs: at - since });
  }
  const awaitsModel =
    turn.pending.length === 0 &&
    Object.keys(turn.calls).length === 0 &&
    !turn.retry?.due &&
    !turn.retry?.until;
  const turnTimeoutMs = turn.options?.timeoutMs ?? limits.turnTimeoutMs;
  due.push(...timeLimitsOf({ ...turn, awaitsModel }, { ...limits, turnTimeoutMs, lastTime }));
  due.push(...minutesDue(fold, spec));
  return due;
}
