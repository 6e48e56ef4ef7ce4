import { fork, type ChildProcess } from "node:child_process";
import { endChild } from "../processes.ts";
import { bundled } from "../environment.ts";
import type { ReadResult, ReadTask, WorkerSaying } from "../workers/read-worker.ts";

/** Readers in processes of their own, so that their cost is not measured. */
export class ReaderPool {
  readonly #workers: ChildProcess[];

  constructor(processes: number) {
    this.#workers = Array.from({ length: processes }, () => fork(bundled("read-worker.js")));
  }

  /** Connects all readers, calls `begin`, and returns the result of each reader. */
  async read(task: ReadTask, begin: () => Promise<void> = async () => {}): Promise<ReadResult[]> {
    const shares = this.#shares(task.readers).map(({ worker, readers }) => new Share(worker, readers));
    try {
      const read = Promise.all(shares.map((share) => share.results));
      read.catch(() => {});
      for (const share of shares) share.begin(task);
      await Promise.all(shares.map((share) => share.connected));
      await begin();
      return (await read).flat();
    } finally {
      for (const share of shares) share.leave();
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => endChild(worker, "SIGTERM")));
  }

  #shares(readers: number): { worker: ChildProcess; readers: number }[] {
    const count = this.#workers.length;
    return this.#workers
      .map((worker, index) => ({ worker, readers: Math.floor((readers + count - 1 - index) / count) }))
      .filter((share) => share.readers > 0);
  }
}

/** The share of one process in a task. */
class Share {
  readonly connected: Promise<void>;
  readonly results: Promise<readonly ReadResult[]>;
  readonly #worker: ChildProcess;
  readonly #readers: number;
  #leave = (): void => {};

  constructor(worker: ChildProcess, readers: number) {
    this.#worker = worker;
    this.#readers = readers;
    let onConnected: (() => void) | undefined;
    this.connected = new Promise((resolve) => {
      onConnected = resolve;
    });
    this.results = new Promise((resolve, reject) => {
      const onMessage = (saying: WorkerSaying): void => {
        if ("connected" in saying) onConnected?.();
        else resolve(saying.results);
      };
      const onExit = (): void => {
        reject(new Error("a reading process ended before its readers"));
        onConnected?.();
      };
      worker.on("message", onMessage).on("exit", onExit);
      this.#leave = () => void worker.off("message", onMessage).off("exit", onExit);
    });
  }

  begin(task: ReadTask): void {
    this.#worker.send({ ...task, readers: this.#readers });
  }

  leave(): void {
    this.#leave();
  }
}
