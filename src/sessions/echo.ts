import { open, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import type { EventDraft } from "../contract/index.ts";
import type { SessionContext } from "./context.ts";
import type { Drafts } from "./drafts.ts";
import type { HarnessProcess } from "./process.ts";

const LOOK_MS = 200;
const MOST_BYTES = 1024 * 1024;

/** What a process prints, told as it is beside what it means. */
export class Echo {
  readonly #process: HarnessProcess;
  readonly #context: SessionContext;
  #timer: NodeJS.Timeout | undefined;
  #seen = 0;

  constructor(process: HarnessProcess, context: SessionContext) {
    this.#process = process;
    this.#context = context;
  }

  /** Nobody follows stderr, so it is looked at from time to time. */
  start(): void {
    this.#timer = setInterval(() => this.#context.inBackground(this.#look()), LOOK_MS);
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** The bytes of `out` between two offsets: whole lines, or the end. */
  async stdout(drafts: Drafts, from: number, to: number): Promise<void> {
    const bytes = to > from ? await this.#read("out", from, to - from) : Buffer.alloc(0);
    if (bytes.length > 0) drafts.add(this.#output("stdout", bytes, to));
  }

  /** What was added to `err` since it was last told; the beginning of a line waits for its rest. */
  async stderr(drafts: Drafts, { isLast }: { isLast: boolean }): Promise<void> {
    const from = this.#context.writer.fold.echoed ?? 0;
    const bytes = await this.#read("err", from, MOST_BYTES);
    const end = isLast || bytes.length === MOST_BYTES ? bytes.length : bytes.lastIndexOf(10) + 1;
    if (end > 0) drafts.add(this.#output("stderr", bytes.subarray(0, end), from + end));
  }

  async #look(): Promise<void> {
    const { writer, exclusive, commit, isClosed } = this.#context;
    const { size } = await this.#stat();
    if (size === this.#seen || isClosed()) return;
    this.#seen = size;
    await exclusive(async () => {
      if (this.#timer === undefined) return;
      const drafts = writer.drafts();
      await this.stderr(drafts, { isLast: false });
      if (drafts.events.length > 0) await commit(drafts);
    });
  }

  #output(stream: "stdout" | "stderr", bytes: Buffer, offset: number): EventDraft {
    const text = this.#process.hide(bytes.toString("utf8"));
    const data = { process: this.#process.ordinal, stream, text, offset };
    return { type: "process.output", source: "agent", data };
  }

  async #stat(): Promise<{ size: number }> {
    const file = await this.#open("err");
    if (!file) return { size: this.#seen };
    return file.stat().finally(() => file.close());
  }

  async #read(name: "out" | "err", from: number, most: number): Promise<Buffer> {
    const file = await this.#open(name);
    if (!file) return Buffer.alloc(0);
    try {
      const { size } = await file.stat();
      const bytes = Buffer.alloc(Math.max(0, Math.min(most, size - from)));
      const { bytesRead } = await file.read(bytes, 0, bytes.length, from);
      return bytes.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  }

  /** The spool of a process that has ended is removed. */
  async #open(name: string): Promise<FileHandle | undefined> {
    return open(join(this.#process.spool.folder, name), "r").catch(() => undefined);
  }
}
