import { setTimeout as sleep } from "node:timers/promises";
import type { CheckpointBundle } from "../checkpoint/bundle-port.ts";
import type { SandboxTree, TreeBundles, TreeWatch, TreeWatchOptions } from "../port.ts";
import { Backlog, type FileChange } from "../watch/changes.ts";
import type { SandboxCalls } from "./calls.ts";
import { isUnreachable } from "./client.ts";
import { isMissing } from "./spool.ts";

/** A checkpoint of a large workspace takes a while. */
const LONG = { silenceMs: 900_000 };
const LONGEST_PAUSE_MS = 5_000;
/** How long the end of a turn waits for the last changes of a machine that cannot be reached. */
const FLUSH_MS = 20_000;

/** The files of a sandbox on another machine as a whole. The runner there has the same code as a local sandbox. */
export class RemoteTree implements SandboxTree {
  readonly bundles: TreeBundles;
  readonly #calls: SandboxCalls;

  constructor(calls: SandboxCalls) {
    this.#calls = calls;
    const put = (key: string, bytes: Uint8Array): Promise<void> => calls.put("object", { key }, bytes);
    this.bundles = {
      make: (base) => this.#bundle(base),
      drop: () => calls.once("checkpoint-drop"),
      target: { put, restore: (hash) => calls.repeat("checkpoint-restore", { hash }, LONG) },
    };
  }

  watch(options: TreeWatchOptions): Promise<TreeWatch> {
    return RemoteTreeWatch.start(this.#calls, options);
  }

  diff(): Promise<{ diff: string } | undefined> {
    return this.#calls.repeat("diff", {}, { silenceMs: 120_000 });
  }

  async #bundle(base: string | undefined): Promise<CheckpointBundle> {
    const { hash, packs } = await this.#calls.repeat<{ hash: string; packs: string[] }>(
      "checkpoint-take",
      { base },
      LONG,
    );
    return { hash, base, packs, read: (key) => this.#calls.bytes("object", { key }) };
  }
}

interface TakenBatch {
  readonly at: number;
  readonly changes: FileChange[];
  readonly warnings: { reason: string; detail: string }[];
}

/** Pulls the changes of a workspace on another machine. A runner that was killed goes on from its stored state. */
class RemoteTreeWatch implements TreeWatch {
  readonly #calls: SandboxCalls;
  readonly #options: TreeWatchOptions;
  readonly #abort = new AbortController();
  readonly #backlog = new Backlog();
  /** Changes that came since the stored state, which the log may not have yet. */
  readonly #told = new Map<string, FileChange>();
  readonly #waiters = new Set<() => void>();
  #watch = "";
  /** The number of the last batch. */
  #seen = 0;
  #head: number;
  #remembering: Promise<void> | undefined;
  #pulling: Promise<void> = Promise.resolve();

  private constructor(calls: SandboxCalls, options: TreeWatchOptions) {
    this.#calls = calls;
    this.#options = options;
    this.#head = options.head;
  }

  static async start(calls: SandboxCalls, options: TreeWatchOptions): Promise<RemoteTreeWatch> {
    const watch = new RemoteTreeWatch(calls, options);
    await watch.#open();
    watch.#pulling = watch.#pull();
    return watch;
  }

  take(): FileChange[] {
    return this.#backlog.take();
  }

  async moved({ signal }: { signal: AbortSignal }): Promise<void> {
    while (this.#backlog.size === 0 && !signal.aborted && !this.#abort.signal.aborted)
      await this.#next(AbortSignal.any([signal, this.#abort.signal]));
  }

  async flush(): Promise<void> {
    const giveUp = AbortSignal.any([this.#abort.signal, AbortSignal.timeout(FLUSH_MS)]);
    try {
      const until = await this.#call<number>("watch-flush", {}, giveUp);
      while (this.#seen < until && !giveUp.aborted) await this.#next(giveUp);
    } catch (error) {
      if (this.#abort.signal.aborted) return;
      // The changes are events later, when the machine can be reached again.
      const detail = `the last changes of the files are not known yet: ${(error as Error).message}`;
      this.#options.warn({ reason: "flush", detail });
    }
  }

  remember(head: number): void {
    this.#head = head;
    if (this.#abort.signal.aborted || this.#backlog.size > 0) return;
    this.#remembering ??= this.#remember().finally(() => (this.#remembering = undefined));
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    this.#wake();
    await this.#pulling;
    await this.#remembering;
    await this.#calls.once("watch-stop").catch(() => {});
  }

  async #open(): Promise<void> {
    const { watch, at } = await this.#calls.repeat<{ watch: string; at: number | null }>("watch");
    const reported = at === null ? [] : [...(await this.#options.reported(at)), ...this.#told.values()];
    await this.#calls.repeat("watch-begin", { watch, reported });
    this.#watch = watch;
    this.#seen = 0;
    if (at === null) await this.#remember();
  }

  async #remember(): Promise<void> {
    const head = this.#head;
    try {
      const isKept = await this.#calls.once<boolean>("watch-remember", {
        watch: this.#watch,
        head,
        seen: this.#seen,
      });
      if (isKept) this.#told.clear();
    } catch {
      // A crash before the next success reports a change twice; it has no other effect.
    }
  }

  async #pull(): Promise<void> {
    const { signal } = this.#abort;
    for (let pause = 50; !signal.aborted; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      try {
        const body = { watch: this.#watch, from: this.#seen };
        this.#add(await this.#calls.once<TakenBatch>("watch-take", body, { signal }));
        pause = 50;
      } catch (error) {
        if (signal.aborted) return;
        if (isMissing(error)) await this.#open().catch((failure: unknown) => this.#warn(failure));
        else if (!isUnreachable(error)) this.#warn(error);
        await sleep(pause, undefined, { signal }).catch(() => {});
      }
    }
  }

  #add({ at, changes, warnings }: TakenBatch): void {
    for (const change of changes) {
      this.#backlog.add(change);
      this.#told.set(change.path, change);
    }
    for (const warning of warnings) this.#options.warn(warning);
    this.#seen = at;
    this.#wake();
  }

  /** A call of the watch, begun again where the runner does not know it any more. */
  async #call<T>(operation: string, body: object, signal: AbortSignal): Promise<T> {
    for (;;) {
      signal.throwIfAborted();
      try {
        return await this.#calls.once<T>(operation, { ...body, watch: this.#watch }, { signal });
      } catch (error) {
        if (!isMissing(error) && !isUnreachable(error)) throw error;
        await sleep(100, undefined, { signal });
      }
    }
  }

  async #next(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      const done = (): void => {
        this.#waiters.delete(done);
        signal.removeEventListener("abort", done);
        resolve();
      };
      this.#waiters.add(done);
      signal.addEventListener("abort", done);
      if (signal.aborted) done();
    });
  }

  #wake(): void {
    const waiting = [...this.#waiters];
    for (const wake of waiting) wake();
  }

  #warn(error: unknown): void {
    if (this.#abort.signal.aborted || isUnreachable(error)) return;
    this.#options.warn({ reason: "failed", detail: `the files cannot be watched: ${String(error)}` });
  }
}
