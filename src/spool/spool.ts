import { execFile } from "node:child_process";
import { open } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { makeFolder } from "../disk/folder.ts";
import { toStorageError } from "../disk/full-disk.ts";
import { readFile, rename, rm, stat, writeFile } from "../disk/sync-files.ts";
import { SluiceError, type ProcessExit, type StderrOutput } from "../contract/index.ts";
import { closeFeeder, endFeeder } from "./feeder.ts";
import { follow, followOutputs, replay } from "./follow.ts";
import { Journal } from "./journal.ts";
import type { HostSpool, OutputBatch, SentEntry, Spool, SpoolBatch, WrappedStart } from "./port.ts";
import { isAlive, isNoFile, readExit, readPid, readRecordedExit, recordKill } from "./process.ts";
import { LINE_LIMITS, type LineLimits } from "./reader.ts";
import { copied, withRelay } from "./relay.ts";
import { RELAY_SCRIPT, RUN_SCRIPT } from "./run.ts";
import { type Cleaning, readStderrLines, type StderrLines, toStderr } from "./stderr.ts";

export interface SpoolOptions extends Partial<LineLimits> {
  /** A process that has not begun this long after a call of `follow` is reported as lost. */
  readonly startGraceMs?: number;
}

/** The limit of a process's output on the disk (`Spool.size`). */
export const MAX_SPOOL_BYTES: number = 4 * 1024 ** 3;

/** Creates a spool in a folder of its own, closed to other users. A spool that was never started is replaced. */
export async function createSpool(folder: string, options: SpoolOptions = {}): Promise<HostSpool> {
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
    const detail = `The disk of ${path} is full, so no process can be started. Free some space and try again.`;
    throw toStorageError(error, detail);
  }
  return new FolderSpool(path, options);
}

/** The spool of an earlier server, of a running or an ended process; undefined where there is none. */
export async function openSpool(folder: string, options: SpoolOptions = {}): Promise<HostSpool | undefined> {
  const path = resolve(folder);
  const found = await stat(join(path, "run")).catch(() => undefined);
  return found === undefined ? undefined : new FolderSpool(path, options);
}

/** The folder of a spool of this machine; undefined for one of another machine. */
export function hostFolderOf(spool: Spool): string | undefined {
  return spool instanceof FolderSpool ? spool.folder : undefined;
}

/** A process that never stops writing delays the caller no longer than this. */
const COPYING_MS = 500;

class FolderSpool implements HostSpool {
  readonly folder: string;
  readonly wrapper: readonly string[];
  readonly #limits: LineLimits;
  readonly #startGraceMs: number;
  readonly #journal: Journal;
  readonly #forgotten: ForgottenOutput;

  constructor(folder: string, options: SpoolOptions) {
    const { startGraceMs = 30_000, ...limits } = options;
    this.folder = folder;
    this.wrapper = [...this.#run, "named"];
    this.#limits = { ...LINE_LIMITS, ...limits };
    this.#startGraceMs = startGraceMs;
    this.#journal = new Journal(folder);
    this.#forgotten = new ForgottenOutput(folder);
  }

  get #run(): readonly string[] {
    return ["/bin/sh", join(this.folder, "run"), this.folder];
  }

  begin(start: (wrapped: WrappedStart) => Promise<void>): Promise<void> {
    return withRelay(this.folder, (stdio) => start({ wrapper: [...this.#run, "private"], stdio }));
  }

  async *follow(options: { from: number; signal: AbortSignal }): AsyncGenerator<SpoolBatch, void, undefined> {
    await this.#forgotten.mustHave(options.from);
    yield* follow(this.folder, { ...options, limits: this.#limits, startGraceMs: this.#startGraceMs });
  }

  async *replay(from: number, to: number): AsyncGenerator<SpoolBatch, void, undefined> {
    await this.#forgotten.mustHave(from);
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

  async fill(input: Uint8Array): Promise<void> {
    try {
      await writeFile(join(this.folder, "in"), input);
      await writeFile(join(this.folder, "whole"), "");
    } catch (error) {
      const detail = `The disk of ${this.folder} is full, so the process gets no input. Free some space and try again.`;
      throw toStorageError(error, detail);
    }
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

  isAlive(): Promise<boolean> {
    return isAlive(this.folder);
  }

  async read(name: "out" | "err", { from, most }: { from: number; most: number }): Promise<Buffer> {
    const file = await open(join(this.folder, name), "r").catch(() => undefined);
    if (!file) return Buffer.alloc(0);
    try {
      const stats = await file.stat();
      const size = stats.isFile() ? stats.size : 0;
      const bytes = Buffer.alloc(Math.max(0, Math.min(most, size - from)));
      const { bytesRead } = await file.read(bytes, 0, bytes.length, from);
      return bytes.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  }

  async errorLength(): Promise<number> {
    return (await this.#stat("err")).size;
  }

  /** A missing file counts as empty. */
  async stderr(cleaning?: Cleaning): Promise<StderrOutput> {
    return toStderr(await this.stderrLines(cleaning?.reach ?? 0), cleaning);
  }

  stderrLines(reach: number): Promise<StderrLines> {
    return readStderrLines(join(this.folder, "err"), reach).catch((error: unknown) => {
      if (isNoFile(error)) return { total: 0, head: [] };
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

const BLOCK_BYTES = 4_096;
const runProgram = promisify(execFile);

/** The start of `out` that nobody needs any more. Its disk space is freed where `fallocate` exists. */
class ForgottenOutput {
  static #hasNoFallocate = false;
  readonly #folder: string;
  #through: Promise<number> | undefined;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Gives up the whole blocks before `offset`. */
  forget(offset: number): Promise<void> {
    const wanted = offset - (offset % BLOCK_BYTES);
    const through = this.#read().then((from) => (wanted > from ? this.#free(from, wanted) : from));
    this.#through = through;
    return through.then(() => {});
  }

  /** Throws if the bytes at `offset` were given up: they may read as zeros. */
  async mustHave(offset: number): Promise<void> {
    const through = await this.#read();
    if (offset >= through) return;
    const detail = `The output before byte ${through} was given up once it was in the log; read from there on.`;
    throw new SluiceError("internal", detail, { offset, through });
  }

  #read(): Promise<number> {
    this.#through ??= readFile(join(this.#folder, "forgotten"), "utf8").then(Number, () => 0);
    return this.#through;
  }

  async #free(from: number, to: number): Promise<number> {
    const note = join(this.#folder, "forgotten");
    // The note comes first. If the disk is too full for it, the space is freed without it.
    await writeFile(`${note}.new`, String(to), { mode: 0o600 })
      .then(() => rename(`${note}.new`, note))
      .catch(() => {});
    if (ForgottenOutput.#hasNoFallocate) return to;
    const range = ["--offset", String(from), "--length", String(to - from)];
    const options = { env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin" } };
    await runProgram("fallocate", ["--punch-hole", ...range, join(this.#folder, "out")], options).catch(
      (error) => {
        ForgottenOutput.#hasNoFallocate = (error as NodeJS.ErrnoException).code === "ENOENT";
      },
    );
    return to;
  }
}
