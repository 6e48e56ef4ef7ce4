import type { Writable } from "node:stream";
import pc from "picocolors";
import { cut, type Page, toPrintable } from "../transcript/pen.ts";
import { nameProgram, toInvocation } from "./invocation.ts";

/** Standard output and error. Writes wait for a slow reader and stop without one; colours are for terminals only. */
export class Screen {
  readonly page: Page;
  readonly #out: Writable & { isTTY?: boolean };
  readonly #err: Writable & { isTTY?: boolean };
  readonly #closed = new AbortController();
  #hasStatus = false;
  #isAtLineStart = true;
  #failure: Error | undefined;

  constructor(out: NodeJS.WriteStream = process.stdout, err: NodeJS.WriteStream = process.stderr) {
    this.#out = out;
    this.#err = err;
    this.page = {
      paint: pc.createColors(hasColors(out)),
      width: out.isTTY ? Math.max(40, Math.min(out.columns || 80, 120)) : Infinity,
      command: toInvocation({ script: process.argv[1], env: process.env, cwd: process.cwd() }),
    };
    out.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EPIPE") this.#failure = error;
      this.#closed.abort();
    });
    err.on("error", () => {});
  }

  /** Aborts when the reader of the output has gone, as with `| head -1`. */
  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  /** The failure of the output, such as a full disk. A reader that has gone is no failure. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /** Waits for a slow reader, so that a long log does not fill the memory. */
  async write(text: string): Promise<void> {
    if (text === "" || this.closed.aborted) return;
    this.status("");
    this.#isAtLineStart = text.endsWith("\n");
    // JSON leaves these control characters as they are, and a terminal obeys them.
    const safe = this.#out.isTTY ? text.replaceAll(/[\u0080-\u009F]/g, "") : text;
    if (this.#out.write(safe)) return;
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

  /** A message for people on standard error. */
  note(text: string): void {
    this.status("");
    this.#err.write(`${nameProgram(text, this.page.command)}\n`);
  }

  /** Whether people watch the output itself, so that it may have a status line below it. */
  get isLive(): boolean {
    return this.isWatched && Boolean(this.#out.isTTY);
  }

  /** Whether the output ends with a whole line. A status line would overwrite an incomplete one. */
  get isAtLineStart(): boolean {
    return this.#isAtLineStart;
  }

  /** Whether standard error is a terminal. */
  get isWatched(): boolean {
    return Boolean(this.#err.isTTY);
  }

  /** A status line that each call replaces; "" removes it. Terminals only. */
  status(text: string, style: (text: string) => string = String): void {
    if (!this.isWatched || (text === "" && !this.#hasStatus)) return;
    this.#hasStatus = text !== "";
    const width = (this.#err as NodeJS.WriteStream).columns || 80;
    this.#err.write(`\r\u001B[K${style(cut(text, width - 1))}`);
  }

  fail(message: string): void {
    const paint = pc.createColors(hasColors(this.#err));
    this.note(`${paint.red("sluice:")} ${toPrintable(message)}`);
  }
}

function hasColors(stream: { isTTY?: boolean }, env: NodeJS.ProcessEnv = process.env): boolean {
  if (env["NO_COLOR"]) return false;
  return Boolean(stream.isTTY) && env["TERM"] !== "dumb";
}

/** Calls `handle` for each Ctrl-C and SIGTERM instead of exiting. Returns a function that removes the handler. */
export function onInterrupt(handle: (signal: NodeJS.Signals) => void): () => void {
  process.on("SIGINT", handle);
  process.on("SIGTERM", handle);
  return () => {
    process.off("SIGINT", handle);
    process.off("SIGTERM", handle);
  };
}

/** A command's output, exit code and command line. */
export interface CommandContext {
  readonly screen: Screen;
  readonly exit: (code: number) => void;
  /** The whole command line, including `--`. */
  readonly argv: readonly string[];
}
