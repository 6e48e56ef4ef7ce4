import { Alarms } from "./alarms.ts";
import type { SessionContext } from "./context.ts";
import { dueOf, type Due } from "./due.ts";
import { failureOf } from "./failure.ts";
import { isResting } from "./fold.ts";
import type { RestingAgent } from "./restingAgents.ts";
import type { Runner } from "./runner.ts";

/** How often an interrupted agent that still has unread output is waited for once more. */
const PATIENCE = 10;

/** What a session does by itself when time passes: retries, limits, force where words did not help, sleep. */
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

  /** Sets the alarms that follow from the log as it is now, and none for a session that was let go. */
  set(): void {
    const { deps, writer, isClosed, inBackground } = this.#context;
    const { spec, fold, lastTime } = writer;
    const { limits } = deps;
    const { turnTimeoutMs = limits.turnTimeoutMs, silenceTimeoutMs: silenceMs = limits.silenceMs } = spec;
    const hasProcess = this.#runner.process !== undefined;
    const due = isClosed()
      ? []
      : dueOf(fold, { limits: { ...limits, turnTimeoutMs, silenceMs }, hasProcess, lastTime });
    deps.resting.tell(this.#agent, !isClosed() && fold.processOpen && !fold.ended && isResting(fold));
    this.#alarms.keepOnly(new Set(due.map(({ what }) => what)));
    const turnId = fold.turn?.id;
    for (const { what, ...when } of due)
      this.#alarms.set(what, when, () => inBackground(this.#ring(what, turnId, lastTime)));
  }

  /** Asks the turn that runs to stop; call it under the lock. */
  async interrupt(by: string | undefined): Promise<void> {
    const { writer, commit } = this.#context;
    const { turn } = writer.fold;
    if (!turn || turn.interrupt) return;
    const data = { turn_id: turn.id, ...(by === undefined ? {} : { by }) };
    await commit(
      writer.drafts([...failureOf(turn, by), { type: "interrupt.requested", source: "daemon", data }]),
    );
  }

  async #ring(what: Due["what"], turnId: string | undefined, heard: number): Promise<void> {
    const { writer, exclusive, commit } = this.#context;
    const { fold } = writer;
    if (fold.turn?.id !== turnId) return;
    if (what === "sleep") return this.#sleep();
    if (what === "signal" || what === "kill") return this.#force(what, turnId);
    await exclusive(async () => {
      if (!fold.turn || fold.turn.id !== turnId) return;
      // Deltas move no alarm: what was said since this one was set only shows now.
      if (what === "silence" && writer.lastTime > heard) return this.set();
      if (what === "timeout" || what === "silence") return this.interrupt(what);
      if (fold.turn.retry === null) return;
      const data = { turn_id: turnId, reason: "retry" } as const;
      await commit(writer.drafts([{ type: "turn.resumed", source: "daemon", data }]));
    });
  }

  /** Stops an agent that did not stop when asked, unless its last words have only not been read yet. */
  async #force(how: "signal" | "kill", turnId: string | undefined): Promise<void> {
    const { deps, writer, isClosed } = this.#context;
    // Its last words may be read while we look or wait: the next turn is not to be forced.
    const isOver = (): boolean => writer.fold.turn?.id !== turnId || isClosed();
    for (let patience = PATIENCE; patience > 0 && (await this.#runner.isBehind()); patience -= 1) {
      if (isOver()) return;
      await new Promise((resolve) => setTimeout(resolve, deps.limits.interruptMs));
    }
    if (isOver()) return;
    return how === "kill" ? this.#runner.kill() : this.#runner.signal("SIGINT");
  }
}
