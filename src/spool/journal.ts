import { closeSync, openSync, writeSync } from "node:fs";
import { open, readFile } from "node:fs/promises";
import { join } from "node:path";
import { toStorageError } from "../disk/full-disk.ts";
import { stat, truncate } from "../disk/sync-files.ts";
import type { SentEntry } from "./port.ts";

/** The input of the process. Each entry is noted in `sent`, then appended to `in`, once per id (docs/decisions/0002). */
export class Journal {
  readonly #sentFile: string;
  readonly #inFile: string;
  #known: Known | undefined;
  #last: Promise<unknown> = Promise.resolve();

  constructor(folder: string) {
    this.#sentFile = join(folder, "sent");
    this.#inFile = join(folder, "in");
  }

  send(entry: SentEntry): Promise<boolean> {
    return this.#inOrder(() => this.#send(entry));
  }

  repair(): Promise<void> {
    return this.#inOrder(async () => void (await this.#mend()));
  }

  sent(): Promise<SentEntry[]> {
    return this.#inOrder(async () => toEntries(await readFile(this.#sentFile)).entries);
  }

  async #send(entry: SentEntry): Promise<boolean> {
    // Another journal of the same folder may have written since.
    const isKnown = this.#known?.sentBytes === (await stat(this.#sentFile)).size;
    const known = (isKnown ? this.#known : undefined) ?? (await this.#mend());
    if (known.ids.has(entry.id)) return false;
    const line = Buffer.from(`${JSON.stringify({ id: entry.id, at: entry.at, text: entry.text })}\n`);
    const text = Buffer.from(entry.text);
    // A failure in between leaves the files in an unknown state.
    this.#known = undefined;
    try {
      await append(this.#sentFile, line);
    } catch (error) {
      await truncate(this.#sentFile, known.sentBytes).catch(() => {});
      throw inputLost(error, this.#sentFile);
    }
    await this.#appendInput(text);
    known.ids.add(entry.id);
    known.sentBytes += line.length;
    this.#known = known;
    return true;
  }

  /** Repairs both files from the journal's whole entries. */
  async #mend(): Promise<Known> {
    const bytes = await readFile(this.#sentFile);
    const { entries, length } = toEntries(bytes);
    if (length < bytes.length) await truncate(this.#sentFile, length);

    const whole = Buffer.concat(entries.map((entry) => Buffer.from(entry.text)));
    const { size } = await stat(this.#inFile);
    if (size < whole.length) await this.#appendInput(whole.subarray(size));
    this.#known = { ids: new Set(entries.map((entry) => entry.id)), sentBytes: length };
    return this.#known;
  }

  async #appendInput(bytes: Buffer): Promise<void> {
    try {
      await append(this.#inFile, bytes);
    } catch (error) {
      throw inputLost(error, this.#inFile);
    }
  }

  #inOrder<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work, work);
    this.#last = result.catch(() => {});
    return result;
  }
}

interface Known {
  readonly ids: Set<string>;
  sentBytes: number;
}

/** The whole entries of a journal, and their length. A torn last line is no entry. */
function toEntries(bytes: Buffer): { entries: SentEntry[]; length: number } {
  const length = bytes.lastIndexOf(10) + 1;
  const lines = bytes.subarray(0, length).toString("utf8").split("\n").slice(0, -1);
  return { entries: lines.map((line) => JSON.parse(line) as SentEntry), length };
}

/** A small write to the page cache costs less than a round through the thread pool. */
const SMALL_BYTES = 64 * 1024;

async function append(file: string, bytes: Buffer): Promise<void> {
  if (bytes.length <= SMALL_BYTES) return appendNow(file, bytes);
  const handle = await open(file, "a");
  try {
    for (let written = 0; written < bytes.length;) {
      written += (await handle.write(bytes, written)).bytesWritten;
    }
  } finally {
    await handle.close();
  }
}

function appendNow(file: string, bytes: Buffer): void {
  const descriptor = openSync(file, "a");
  try {
    for (let written = 0; written < bytes.length;) written += writeSync(descriptor, bytes, written);
  } finally {
    closeSync(descriptor);
  }
}

function inputLost(error: unknown, file: string): unknown {
  const detail = `The disk of ${file} is full, so the agent's input was not written. Free some space and send it again.`;
  return toStorageError(error, detail);
}
