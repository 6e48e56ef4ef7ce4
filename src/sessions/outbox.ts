import { isBridgedRequest } from "./bridged.ts";
import type { SessionContext } from "./context.ts";
import type { HarnessProcess } from "./process.ts";

/** What the log says that the harness must have been told, and has not confirmed. */
export class Outbox {
  readonly #context: SessionContext;
  readonly #interrupt: () => Promise<void>;
  #isOwed = false;

  /** `interrupt` is for an agent that has no words for it. */
  constructor(context: SessionContext, interrupt: () => Promise<void>) {
    this.#context = context;
    this.#interrupt = interrupt;
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
      const delivery = await process.deliver(id, command);
      if (delivery === "later") this.#isOwed = true;
      // What is behind it is about it: an interrupt must not come before what it shall stop.
      if (delivery === "later" && command.type === "prompt") return;
      if (delivery !== "no words") continue;
      const message = `the agent has no words for "${command.type}"`;
      if (command.type === "interrupt") await this.#interrupt();
      else deps.logger({ level: "warn", message, session: writer.row.id });
    }
  }
}
