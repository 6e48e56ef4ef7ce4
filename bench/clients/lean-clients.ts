import { fork, type ChildProcess } from "node:child_process";
import { endChild } from "../processes.ts";
import { bundled } from "../environment.ts";
import type { LeanPrompts, LeanRead, LeanReading, LeanSaying, LeanTimes } from "../workers/lean-worker.ts";

/** Lean clients in processes of their own. Their code is compiled before their first task. */
export class LeanClients {
  readonly #workers: readonly ChildProcess[];

  private constructor(workers: readonly ChildProcess[]) {
    this.#workers = workers;
  }

  static async start(processes: number): Promise<LeanClients> {
    const workers = Array.from({ length: processes }, () => fork(bundled("lean-worker.js")));
    await Promise.all(workers.map((worker) => nextMessage(worker, "ready")));
    return new LeanClients(workers);
  }

  async prompt(task: Omit<LeanPrompts, "kind">): Promise<LeanTimes> {
    const [worker] = this.#workers;
    if (!worker) throw new Error("there is no client");
    const said = nextMessage(worker, "times");
    worker.send({ kind: "prompts", ...task });
    return (await said).times;
  }

  /** Connects all readers, calls `begin`, and returns the result of each reader. */
  async read(task: Omit<LeanReading, "kind">, begin: () => void): Promise<LeanRead[]> {
    const count = this.#workers.length;
    const shares = this.#workers
      .map((worker, index) => ({ worker, readers: Math.floor((task.readers + count - 1 - index) / count) }))
      .filter(({ readers }) => readers > 0);
    const read = Promise.all(shares.map(({ worker }) => nextMessage(worker, "read")));
    read.catch(() => {});
    const connected = shares.map(({ worker }) => nextMessage(worker, "ready"));
    for (const { worker, readers } of shares) worker.send({ kind: "read", ...task, readers });
    await Promise.all(connected);
    begin();
    return (await read).flatMap((saying) => saying.read);
  }

  async close(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => endChild(worker, "SIGTERM")));
  }
}

/** The worker's next message of this kind. */
function nextMessage<K extends "ready" | "times" | "read">(
  worker: ChildProcess,
  kind: K,
): Promise<Extract<LeanSaying, Record<K, unknown>>> {
  return new Promise((resolve, reject) => {
    const onMessage = (saying: LeanSaying): void => {
      if (!(kind in saying)) return;
      worker.off("message", onMessage).off("exit", onExit);
      resolve(saying as Extract<LeanSaying, Record<K, unknown>>);
    };
    const onExit = (): void => reject(new Error("a client's process ended before it was done"));
    worker.on("message", onMessage).on("exit", onExit);
  });
}
