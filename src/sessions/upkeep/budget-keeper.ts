import type { EventDraft } from "../../contract/index.ts";
import type { SessionContext } from "../context.ts";
import { PAUSED_FOR_BUDGET } from "../fold/budget-fold.ts";
import type { SessionFold } from "../fold/session-fold.ts";
import type { Runner } from "../process/runner.ts";
import { pauseSandbox } from "../sandbox/pause.ts";
import type { SessionSandbox } from "../sandbox/session-sandbox.ts";
import { readWorkspace, reachedEvents } from "../turn/budget.ts";
import { BY_BUDGET } from "../turn/engine-failure.ts";
import { requestInterrupt } from "../turn/interrupt.ts";

/** Freezes an agent whose budget is used up, and lets it go on after the decision. Both follow from the log. */
export class BudgetKeeper {
  readonly #context: SessionContext;
  readonly #runner: Runner;
  readonly #sandbox: SessionSandbox;

  constructor(context: SessionContext, runner: Runner, sandbox: SessionSandbox) {
    this.#context = context;
    this.#runner = runner;
    this.#sandbox = sandbox;
  }

  /** Call it after every commit, and when the session is opened; under the lock. */
  async settle(events: readonly EventDraft[] = []): Promise<void> {
    if (events.some(mayOverdraw)) await this.#lookAtWorkspace(events);
    const { writer, isClosed, inBackground } = this.#context;
    const { fold } = writer;
    if (isClosed() || fold.ended) return;
    const isHeld = mustFreeze(fold);
    if (isHeld && !fold.paused) inBackground(this.#freeze());
    if (!isHeld && fold.paused && fold.frozen) inBackground(this.#runner.resume());
    // The turn ended before its agent got the message, so the next turn may start.
    if (events.some(isUnstarted)) this.#runner.advance();
  }

  /** The budget of the workspace ends the turn; the sum is that of all its sessions, on every server of this log. */
  async #lookAtWorkspace(events: readonly EventDraft[]): Promise<void> {
    const { deps, writer, commit } = this.#context;
    const { fold, spec, row } = writer;
    if (!fold.turn || fold.turn.interrupt || row.tenant === undefined) return;
    const reached = (await readWorkspace(row, deps)).find(({ limit, spent }) => spent >= limit);
    if (!reached) return;
    const startsTurn = events.some(({ type }) => type === "turn.started");
    const hit = { ...reached, scope: "workspace", amount: reached.limit } as const;
    await commit(
      writer.drafts(reachedEvents(fold, spec, { ...hit, ...(startsTurn ? { at_start: true } : {}) })),
    );
  }

  async #freeze(): Promise<void> {
    const { writer, exclusive, isClosed } = this.#context;
    try {
      const isWanted = (): boolean => mustFreeze(writer.fold);
      await pauseSandbox(this.#context, this.#sandbox, { message: PAUSED_FOR_BUDGET, isWanted });
    } catch {
      if (isClosed()) return;
      // An agent that cannot be frozen is stopped.
      await exclusive(() => requestInterrupt(this.#context, BY_BUDGET));
    }
  }
}

function mayOverdraw({ type }: EventDraft): boolean {
  return type === "turn.started" || type === "model.ended";
}

function isUnstarted(event: EventDraft): boolean {
  return event.type === "turn.ended" && event.data.stop_reason === "budget_reached";
}

/** Whether the processes of the sandbox have to be frozen. A led agent waits anyway: the gateway holds its requests. */
function mustFreeze({ reached, turn, led }: SessionFold): boolean {
  if (!reached || reached.denied || !turn || turn.interrupt || reached.action === "stop") return false;
  if (reached.action === "pause") return true;
  return !reached.at_start && (led !== true || reached.measure === "minutes");
}
