import type { HarnessCommand } from "../../harness/port.ts";
import { isToolServerRequest } from "../actions/tool-requests.ts";
import { isBudgetRequest } from "../turn/budget.ts";
import { closeTurn } from "../turn/turn-end.ts";
import type { SessionContext } from "../context.ts";
import { messageOf } from "../failure.ts";
import type { Delivery, HarnessProcess } from "./process.ts";
import { mustBeDamage } from "./recovery.ts";
import { undeliveredError } from "../fold/turn-fold.ts";

export interface OutboxHooks {
  /** Called where the agent has no command for an interrupt. */
  interrupt(): Promise<void>;
  /** Called when a prompt or an answer could not be delivered: the process cannot be used any more. */
  discard(): void;
}

/** Delivers the commands of the log to the harness, each exactly once. */
export class Outbox {
  readonly #context: SessionContext;
  readonly #hooks: OutboxHooks;
  #isOwed = false;

  constructor(context: SessionContext, hooks: OutboxHooks) {
    this.#context = context;
    this.#hooks = hooks;
  }

  /** Whether a command waits until the harness can take it. */
  get isOwed(): boolean {
    return this.#isOwed;
  }

  async deliver(process: HarnessProcess): Promise<void> {
    const { deps, writer } = this.#context;
    this.#isOwed = false;
    for (const { id, command } of writer.fold.turn?.outbox ?? []) {
      if ("id" in command && (isToolServerRequest(command.id) || isBudgetRequest(command.id))) continue;
      // No work begins while a budget waits for its decision. The commit of the decision delivers the command.
      if (writer.fold.reached && command.type !== "interrupt" && !process.wasSent(id)) return;
      // A server that was frozen past its lease must not speak to the agent beside the new owner.
      if (!deps.lease.isHeld) await deps.lease.untilHeld();
      const delivery = await this.#hand(process, id, command);
      if (delivery === "set aside") continue;
      if (delivery === "later") this.#isOwed = true;
      // The commands after a prompt belong to it: an interrupt must not be sent before its prompt.
      if (delivery === "later" && command.type === "prompt") return;
      if (delivery !== "unsupported") continue;
      const message = `the agent has no command for "${command.type}"`;
      if (command.type === "interrupt") await this.#hooks.interrupt();
      else deps.logger({ level: "warn", message, session: writer.row.id });
    }
  }

  async #hand(process: HarnessProcess, id: string, command: HarnessCommand): Promise<Delivery | "set aside"> {
    try {
      return await process.deliver(id, command);
    } catch (error) {
      mustBeDamage(this.#context, error);
      await this.#setAside(id, command, messageOf(error));
      return "set aside";
    }
  }

  /**
   * Reports a command that can never be delivered. A turn that waits for this input would not end by itself, so the
   * agent is discarded.
   */
  async #setAside(id: string, command: HarnessCommand, why: string): Promise<void> {
    const { deps, writer, commit } = this.#context;
    const message = `the agent could not be told "${command.type}": ${why}`;
    deps.logger({ level: "error", message, session: writer.row.id });
    const drafts = writer.drafts([undeliveredError(id, message)]);
    const isAwaited = command.type !== "steer" && command.type !== "interrupt";
    if (isAwaited) {
      const error = { code: "undeliverable", message };
      drafts.addAll(closeTurn(writer.fold, { status: "failed", stopReason: "agent_lost", error }));
    }
    await commit(drafts);
    if (isAwaited) this.#hooks.discard();
    if (command.type === "interrupt") await this.#hooks.interrupt();
  }
}
