import type { Writable } from "node:stream";
import pc from "picocolors";
import { startedAs } from "./started-as.ts";
import { cut } from "./transcript/clean.ts";
import type { Page } from "./transcript/pen.ts";

/** Standard output and error as commands see them: paced, coloured only for people, quiet when nobody reads. */
export class Screen {
  readonly page: Page;
  readonly #out: Writable & { isTTY?: boolean };
  readonly #err: Writable & { isTTY?: boolean };
  readonly #closed = new AbortController();
  #hasStatus = false;
  #failure: Error | undefined;

  constructor(out: NodeJS.WriteStream = process.stdout, err: NodeJS.WriteStream = process.stderr) {
    this.#out = out;
    this.#err = err;
    this.page = {
      paint: pc.createColors(hasColors(out)),
      width: out.isTTY ? Math.max(40, Math.min(out.columns || 80, 120)) : Infinity,
      command: startedAs({ script: process.argv[1], env: process.env, cwd: process.cwd() }),
    };
    out.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EPIPE") this.#failure = error;
      this.#closed.abort();
    });
    err.on("error", () => {});
  }

  /** Aborts once the reader of our output is gone, as with `| head -1`. */
  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  /** Why the output could not be written, where that is not its reader's choice, as on a full disk. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /** Waits for a slow reader, so that a long log does not pile up in memory. */
  async write(text: string): Promise<void> {
    if (text === "" || this.closed.aborted || this.#out.write(text)) return;
    await new Promise<void>((resolve) => {
      const done = () => {
        this.#out.off("drain", done);
        this.closed.removeEventListener("abort", done);
        resolve();
      };
      this.#out.on("drain", done);
      this.closed.addEventListener("abort", done);
    });
  }

  async line(text: string): Promise<void> {
    await this.write(`${text}\n`);
  }

  /** For people: what is not part of the command's output. */
  note(text: string): void {
    this.status("");
    this.#err.write(`${text}\n`);
  }

  /** Whether somebody watches who can be told what goes on. */
  get isWatched(): boolean {
    return Boolean(this.#err.isTTY);
  }

  /** One line that each call writes anew, for people who wait; "" takes it away. Nothing in a pipe. */
  status(text: string): void {
    if (!this.isWatched || (text === "" && !this.#hasStatus)) return;
    this.#hasStatus = text !== "";
    const width = (this.#err as NodeJS.WriteStream).columns || 80;
    this.#err.write(`\r\u001B[K${cut(text, width - 1)}`);
  }

  fail(message: string): void {
    const paint = pc.createColors(hasColors(this.#err));
    this.note(`${paint.red("sluice:")} ${message}`);
  }
}

function hasColors(stream: { isTTY?: boolean }, env: NodeJS.ProcessEnv = process.env): boolean {
  if (env["NO_COLOR"]) return false;
  return Boolean(stream.isTTY) && env["TERM"] !== "dumb";
}
