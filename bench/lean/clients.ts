import { fork, type ChildProcess } from "node:child_process";
import { endChild } from "../end-child.ts";
import { bundled } from "../place.ts";
import type { LeanPrompts, LeanRead, LeanReading, LeanSaying, LeanTimes } from "../workers/lean-worker.ts";

/** Lean clients in processes of their own, whose code is compiled before they are given anything to do. */
export class LeanClients {
  readonly #workers: readonly ChildProcess[];

  private constructor(workers: readonly ChildProcess[]) {
    this.#workers = workers;
  }

  static async start(processes: number): Promise<LeanClients> {
    const workers = Array.from({ length: processes }, () => fork(bundled("lean-worker.js")));
    await Promise.all(workers.map((worker) => hear(worker, "ready")));
    return new LeanClients(workers);
  }

  async prompt(task: Omit<LeanPrompts, "kind">): Promise<LeanTimes> {
    const [worker] = this.#workers;
    if (!worker) throw new Error("there is no client");
    const said = hear(worker, "times");
    worker.send({ kind: "prompts", ...task });
    return (await said).times;
  }

  /** Connects all readers, then calls `begin`, and answers what each of them has read. */
  async read(task: Omit<LeanReading, "kind">, begin: () => void): Promise<LeanRead[]> {
    const count = this.#workers.length;
    const shares = this.#workers
      .map((worker, index) => ({ worker, readers: Math.floor((task.readers + count - 1 - index) / count) }))
      .filter(({ readers }) => readers > 0);
    const read = Promise.all(shares.map(({ worker }) => hear(worker, "read")));
    read.catch(() => {});
    const connected = shares.map(({ worker }) => hear(worker, "ready"));
    for (const { worker, readers } of shares) worker.send({ kind: "read", ...task, readers });
    await Promise.all(connected);
    begin();
    return (await read).flatMap((saying) => saying.read);
  }

  async close(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => endChild(worker, "SIGTERM")));
  }
}

/** The next saying of this kind. */
function hear<K extends "ready" | "times" | "read">(
  worker: ChildProcess,
  kind: K,
): Promise<Extract<LeanSaying, Record<K, unknown>>> {
  return new Promise((resolve, reject) => {
    const onMessage = (saying: LeanSaying): void => {
      if (!(kind in saying)) return;
      worker.off("message", onMessage).off("exit", onExit);
      resolve(saying as Extract<LeanSaying, Record<K, unknown>>);
    };
    const onExit = (): void => reject(new Error("a client's process has ended before it was done"));
    worker.on("message", onMessage).on("exit", onExit);
  });
}
