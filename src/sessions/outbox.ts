import type { HarnessCommand } from "../harness/port.ts";
import { isBridgedRequest } from "./bridged.ts";
import { closeTurn } from "./closing.ts";
import type { SessionContext } from "./context.ts";
import { messageOf } from "./damage.ts";
import type { Delivery, HarnessProcess } from "./process.ts";
import { mustBeDamage } from "./recovery.ts";
import { undeliveredError } from "./turnFold.ts";

export interface OutboxHooks {
  /** For an agent that has no words for it. */
  interrupt(): Promise<void>;
  /** A prompt could not be handed over: the process is not fit for another. */
  discard(): void;
}

/** What the log says that the harness must have been told, and has not confirmed. */
export class Outbox {
  readonly #context: SessionContext;
  readonly #hooks: OutboxHooks;
  #isOwed = false;

  constructor(context: SessionContext, hooks: OutboxHooks) {
    this.#context = context;
    this.#hooks = hooks;
  }

  /** Whether something waits until the harness can be told it. */
  get isOwed(): boolean {
    return this.#isOwed;
  }

  async deliver(process: HarnessProcess): Promise<void> {
    const { deps, writer } = this.#context;
    this.#isOwed = false;
    for (const { id, command } of writer.fold.turn?.outbox ?? []) {
      if ("id" in command && isBridgedRequest(command.id)) continue;
      const delivery = await this.#hand(process, id, command);
      if (delivery === "set aside") continue;
      if (delivery === "later") this.#isOwed = true;
      // What is behind it is about it: an interrupt must not come before what it shall stop.
      if (delivery === "later" && command.type === "prompt") return;
      if (delivery !== "no words") continue;
      const message = `the agent has no words for "${command.type}"`;
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

  /** Trying again would fail again. A turn whose prompt never arrives would never end by itself. */
  async #setAside(id: string, command: HarnessCommand, why: string): Promise<void> {
    const { deps, writer, commit } = this.#context;
    const message = `the agent could not be told "${command.type}": ${why}`;
    deps.logger({ level: "error", message, session: writer.row.id });
    const drafts = writer.drafts([undeliveredError(id, message)]);
    if (command.type === "prompt") {
      const error = { code: "undeliverable", message };
      drafts.addAll(closeTurn(writer.fold, { status: "failed", stopReason: "agent_lost", error }));
    }
    await commit(drafts);
    if (command.type === "prompt") this.#hooks.discard();
    if (command.type === "interrupt") await this.#hooks.interrupt();
  }
}
