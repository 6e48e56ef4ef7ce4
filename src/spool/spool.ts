import { dirname, join, resolve } from "node:path";
import { makeFolder } from "../disk/folder.ts";
import { rm, stat, writeFile } from "../disk/on-the-spot.ts";
import { SluiceError, type ProcessExit, type StderrOutput } from "../contract/index.ts";
import { closeFeeder, endFeeder } from "./feeder.ts";
import { follow, replay } from "./follow.ts";
import { Forgotten } from "./forget.ts";
import { Journal } from "./journal.ts";
import { followOutputs } from "./outputs.ts";
import type { OutputBatch, SentEntry, Spool, SpoolBatch, WrappedStart } from "./port.ts";
import { isNoFile, readExit, readPid, readRecordedExit, recordKill } from "./process.ts";
import { LINE_LIMITS, type LineLimits } from "./reader.ts";
import { copied, withRelay } from "./relay.ts";
import { RELAY_SCRIPT, RUN_SCRIPT } from "./run.ts";
import { type Cleaning, readStderr } from "./stderr.ts";

export interface SpoolOptions extends Partial<LineLimits> {
  /** A process that has not begun this long after `follow` is reported as lost. */
  readonly startGraceMs?: number;
}

/** The limit of a process's output on the disk (`Spool.size`). */
export const MAX_SPOOL_BYTES: number = 4 * 1024 ** 3;

/** Creates a spool in a folder of its own, closed to other users. A spool that was never started is replaced. */
export async function createSpool(folder: string, options: SpoolOptions = {}): Promise<Spool> {
  const path = resolve(folder);
  try {
    await makeFolder(dirname(path));
    if ((await readPid(path)) !== undefined) {
      const detail = `A process was started in ${path} already; open its spool instead of creating one.`;
      throw new SluiceError("internal", detail);
    }
    await rm(path, { recursive: true, force: true });
    await makeFolder(path);
    for (const name of ["out", "err", "in", "sent"]) await writeFile(join(path, name), "", { mode: 0o600 });
    await writeFile(join(path, "run"), RUN_SCRIPT, { mode: 0o600 });
    await writeFile(join(path, "relay"), RELAY_SCRIPT, { mode: 0o600 });
  } catch (error) {
    throw toCreateError(error, path);
  }
  return new FolderSpool(path, options);
}

/** The spool of an earlier server, of a running or an ended process; undefined where there is none. */
export async function openSpool(folder: string, options: SpoolOptions = {}): Promise<Spool | undefined> {
  const path = resolve(folder);
  const found = await stat(join(path, "run")).catch(() => undefined);
  return found === undefined ? undefined : new FolderSpool(path, options);
}

/** A process that never stops writing delays the caller no longer than this. */
const COPYING_MS = 500;

class FolderSpool implements Spool {
  readonly folder: string;
  readonly wrapper: readonly string[];
  readonly #limits: LineLimits;
  readonly #startGraceMs: number;
  readonly #journal: Journal;
  readonly #forgotten: Forgotten;

  constructor(folder: string, options: SpoolOptions) {
    const { startGraceMs = 30_000, ...limits } = options;
    this.folder = folder;
    this.wrapper = [...this.#run, "named"];
    this.#limits = { ...LINE_LIMITS, ...limits };
    this.#startGraceMs = startGraceMs;
    this.#journal = new Journal(folder);
    this.#forgotten = new Forgotten(folder);
  }

  get #run(): readonly string[] {
    return ["/bin/sh", join(this.folder, "run"), this.folder];
  }

  begin(start: (wrapped: WrappedStart) => Promise<void>): Promise<void> {
    return withRelay(this.folder, (stdio) => start({ wrapper: [...this.#run, "private"], stdio }));
  }

  async *follow(options: { from: number; signal: AbortSignal }): AsyncGenerator<SpoolBatch, void, undefined> {
    await this.#forgotten.demand(options.from);
    yield* follow(this.folder, { ...options, limits: this.#limits, startGraceMs: this.#startGraceMs });
  }

  async *replay(from: number, to: number): AsyncGenerator<SpoolBatch, void, undefined> {
    await this.#forgotten.demand(from);
    yield* replay(this.folder, { from, to, limits: this.#limits });
  }

  outputs(options: {
    from: { stdout: number; stderr: number };
    signal: AbortSignal;
  }): AsyncIterable<OutputBatch> {
    return followOutputs(this.folder, { ...options, startGraceMs: this.#startGraceMs });
  }

  send(entry: SentEntry): Promise<boolean> {
    return this.#journal.send(entry);
  }

  sent(): Promise<readonly SentEntry[]> {
    return this.#journal.sent();
  }

  repair(): Promise<void> {
    return this.#journal.repair();
  }

  closeInput(): Promise<void> {
    return closeFeeder(this.folder);
  }

  pid(): Promise<number | undefined> {
    return readPid(this.folder);
  }

  exit(): Promise<ProcessExit | undefined> {
    return readExit(this.folder);
  }

  async killed(): Promise<void> {
    if ((await readRecordedExit(this.folder)) === undefined) await recordKill(this.folder);
  }

  async copied(): Promise<void> {
    await copied(this.folder, COPYING_MS);
  }

  /** A missing file counts as empty. */
  stderr(cleaning?: Cleaning): Promise<StderrOutput> {
    return readStderr(join(this.folder, "err"), cleaning).catch((error: unknown) => {
      if (isNoFile(error)) return { truncated: false, total_lines: 0 };
      throw error;
    });
  }

  async size(): Promise<number> {
    const files = await Promise.all(["out", "err"].map((name) => this.#stat(name)));
    // Freed space is a hole: it counts in the size, not in the blocks.
    return files.reduce((sum, { size, blocks }) => sum + Math.min(size, blocks * 512), 0);
  }

  async length(): Promise<number> {
    return (await this.#stat("out")).size;
  }

  /** A removed file has no length. */
  async #stat(name: string): Promise<{ size: number; blocks: number }> {
    return stat(join(this.folder, name)).catch(() => ({ size: 0, blocks: 0 }));
  }

  forget(offset: number): Promise<void> {
    return this.#forgotten.forget(offset);
  }

  async remove(): Promise<void> {
    await endFeeder(this.folder);
    await rm(this.folder, { recursive: true, force: true });
  }
}

function toCreateError(error: unknown, folder: string): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (code !== "ENOSPC" && code !== "EDQUOT") return error;
  const detail = `The disk of ${folder} is full, so no process can be started. Free some space and try again.`;
  return new SluiceError("storage_full", detail, {}, { cause: error });
}
