import { EventEmitter } from "node:events";
import type { LifecycleEvent, OutputEvent, Told } from "../dialects/content/index.ts";

/**
 * What can be listened to, and what a listener is given.
 *
 * @example
 * const log = (...[event]: SluiceListeners["lifecycle"]): void => console.log(event.reason);
 * sluice.on("lifecycle", log);
 */
export interface SluiceListeners {
  /** What the agent says, does and plans. */
  content: [event: OutputEvent];
  /** What becomes of the sandbox, and of what runs in it. */
  lifecycle: [event: LifecycleEvent];
  /** What the agent's CLI or a command prints. */
  stdout: [chunk: string];
  stderr: [chunk: string];
  /** A listener failed. Without a listener of its own this is a warning of the process. */
  error: [error: Error];
}

/** An emitter whose listeners cannot harm what they listen to. */
export class SafeEmitter extends EventEmitter<SluiceListeners> {
  protected tell(told: Told): void {
    const value = "event" in told ? told.event : told.chunk;
    for (const listener of this.rawListeners(told.type)) {
      try {
        const result: unknown = (listener as (value: unknown) => unknown).call(this, value);
        if (result instanceof Promise) result.catch((error: unknown) => this.#report(error));
      } catch (error) {
        this.#report(error);
      }
    }
  }

  #report(thrown: unknown): void {
    const error = thrown instanceof Error ? thrown : new Error(String(thrown));
    if (this.listenerCount("error") === 0) return process.emitWarning(error);
    try {
      this.emit("error", error);
    } catch (second) {
      process.emitWarning(second instanceof Error ? second : String(second));
    }
  }
}
