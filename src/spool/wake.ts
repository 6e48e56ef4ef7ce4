import { watch, type FSWatcher } from "node:fs";

/** The reason of a wake. */
export type WakeReason = "output" | "process" | "nothing";

const POLL_MS = 1_000;
/** The interval of the poll when the kernel has no watch left. */
const POLL_ALONE_MS = 50;

/** Wakes the follower of a spool folder: by inotify, and by a slow poll as a fallback. */
export class Wake {
  readonly #signal: AbortSignal;
  readonly #outputs: readonly string[];
  readonly #onAbort = (): void => this.close();
  readonly #timer: NodeJS.Timeout;
  #watcher: FSWatcher | undefined;
  #reason: WakeReason = "process";
  #resolve: (() => void) | undefined;

  /** `outputs` are the files whose growth wakes the follower. */
  constructor(folder: string, signal: AbortSignal, outputs: readonly string[] = ["out"]) {
    this.#signal = signal;
    this.#outputs = outputs;
    this.#watcher = this.#watch(folder);
    this.#timer = setInterval(() => this.#stir("process"), this.#watcher ? POLL_MS : POLL_ALONE_MS);
    // The watcher keeps the program alive; without one, the timer does.
    if (this.#watcher) this.#timer.unref();
    signal.addEventListener("abort", this.#onAbort, { once: true });
    if (signal.aborted) this.close();
  }

  /** The reason since the last call. Call it before reading, so that every later change wakes again. */
  take(): WakeReason {
    const reason = this.#reason;
    this.#reason = "nothing";
    return reason;
  }

  /** Resolves when there is a reason since `take`, or the signal is aborted. */
  async moved(): Promise<void> {
    if (this.#reason !== "nothing" || this.#signal.aborted) return;
    await new Promise<void>((resolve) => {
      this.#resolve = resolve;
    });
  }

  close(): void {
    clearInterval(this.#timer);
    this.#watcher?.close();
    this.#watcher = undefined;
    this.#signal.removeEventListener("abort", this.#onAbort);
    this.#resolve?.();
  }

  #watch(folder: string): FSWatcher | undefined {
    try {
      const watcher = watch(folder, (_event, name) => {
        if (name !== null && this.#outputs.includes(name)) this.#stir("output");
        if (name === "exit" || name === "pid" || name === null) this.#stir("process");
      });
      watcher.on("error", () => this.#stir("process"));
      return watcher;
    } catch {
      return undefined;
    }
  }

  #stir(what: WakeReason): void {
    if (this.#reason !== "process") this.#reason = what;
    this.#resolve?.();
    this.#resolve = undefined;
  }
}
