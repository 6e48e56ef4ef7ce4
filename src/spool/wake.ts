import { watch, type FSWatcher } from "node:fs";

/** What may have happened since the last look. */
export type Stirred = "output" | "process" | "nothing";

const POLL_MS = 1_000;
/** Where the kernel has no watch left to give. */
const POLL_ALONE_MS = 50;

/** Wakes a follower of a spool folder: by inotify, and by a slow poll as the safety net. */
export class Wake {
  readonly #signal: AbortSignal;
  readonly #outputs: readonly string[];
  readonly #onAbort = (): void => this.close();
  readonly #timer: NodeJS.Timeout;
  #watcher: FSWatcher | undefined;
  #stirred: Stirred = "process";
  #resolve: (() => void) | undefined;

  /** `outputs` are the files whose growth is news. */
  constructor(folder: string, signal: AbortSignal, outputs: readonly string[] = ["out"]) {
    this.#signal = signal;
    this.#outputs = outputs;
    this.#watcher = this.#watch(folder);
    this.#timer = setInterval(() => this.#stir("process"), this.#watcher ? POLL_MS : POLL_ALONE_MS);
    // The watcher keeps the program alive; without one the timer has to.
    if (this.#watcher) this.#timer.unref();
    signal.addEventListener("abort", this.#onAbort, { once: true });
    if (signal.aborted) this.close();
  }

  /** To be asked before reading, so that whatever comes after it wakes again. */
  take(): Stirred {
    const stirred = this.#stirred;
    this.#stirred = "nothing";
    return stirred;
  }

  /** Resolves when something happened since `take`, or the signal is aborted. */
  async moved(): Promise<void> {
    if (this.#stirred !== "nothing" || this.#signal.aborted) return;
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

  #stir(what: Stirred): void {
    if (this.#stirred !== "process") this.#stirred = what;
    this.#resolve?.();
    this.#resolve = undefined;
  }
}
