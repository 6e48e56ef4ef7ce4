import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { sessionExists } from "../../log/refusals.ts";
import type { EventLog } from "../../log/port.ts";
import type { Ownership } from "../upkeep/lease.ts";

export interface ForkOptions {
  readonly dataDir: string;
  readonly log: EventLog;
  readonly lease: Ownership;
  /** Copies the files and the agent's memory of a checkpoint into a session. */
  restore(session: string, checkpoint: string): Promise<unknown>;
  remove(session: string): Promise<void>;
}

/**
 * Creates sessions as forks of another. Each fork under way has a marker file, so that a crash leaves a whole fork or
 * none (docs/decisions/0046).
 */
export class Forks {
  readonly #options: ForkOptions;
  readonly #folder: string;

  constructor(options: ForkOptions) {
    this.#options = options;
    this.#folder = join(options.dataDir, "forks");
  }

  /** Creates the fork, and removes it again where the checkpoint cannot be restored. */
  async make(id: string, checkpoint: string, store: () => Promise<unknown>): Promise<void> {
    const { log, restore, remove } = this.#options;
    if (await log.find(id)) throw sessionExists(id);
    await this.#mark(id);
    try {
      await store();
      await restore(id, checkpoint).catch(async (error: unknown) => {
        await remove(id);
        throw error;
      });
    } finally {
      await this.#unmark(id);
    }
  }

  /** Removes the incomplete forks of servers that crashed. */
  async removeUnfinished(): Promise<void> {
    const { log, remove } = this.#options;
    for (const id of await this.#abandoned()) {
      const types = new Set(["checkpoint.restored"] as const);
      const row = await log.find(id);
      const isWhole =
        row && (row.floor > 0 || (await log.read(id, { after: 0, limit: 1, types })).length > 0);
      if (row && !isWhole) await remove(id);
      await this.#unmark(id);
    }
  }

  async #mark(session: string): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    await writeFile(this.#file(session), this.#options.lease.name, { mode: 0o600 });
  }

  async #unmark(session: string): Promise<void> {
    await rm(this.#file(session), { force: true });
  }

  /** The marked sessions whose server is gone. */
  async #abandoned(): Promise<string[]> {
    const found: string[] = [];
    for (const name of await readdir(this.#folder).catch(() => [])) {
      const maker = await readFile(join(this.#folder, name), "utf8").catch(() => "");
      if (this.#options.lease.isFree(maker)) found.push(decodeURIComponent(name));
    }
    return found;
  }

  #file(session: string): string {
    return join(this.#folder, encodeURIComponent(session));
  }
}
