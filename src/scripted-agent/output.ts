import { once } from "node:events";
import type { Writable } from "node:stream";
import type { AgentLine } from "./protocol.ts";

/** The agent's stdout: protocol lines, and raw bytes where a script asks for them. */
export class Output {
  readonly #stream: Writable;
  #insideLine = false;
  #isCorked = false;

  constructor(stream: Writable) {
    this.#stream = stream;
  }

  line(line: AgentLine): void {
    this.text(`${JSON.stringify(line)}\n`);
  }

  /** Writes a line whose last field, `key`, is a text in pieces: the whole may be too long for a string. */
  longLine(head: Partial<AgentLine>, key: string, pieces: readonly string[]): void {
    this.text(`${JSON.stringify(head).slice(0, -1)},${JSON.stringify(key)}:"`);
    for (const piece of pieces) {
      for (let at = 0; at < piece.length; at += SLICE) {
        this.#write(JSON.stringify(piece.slice(at, at + SLICE)).slice(1, -1));
      }
    }
    this.#write('"}\n');
  }

  /** Writes whole lines, each with its newline. */
  text(text: string): void {
    if (this.#insideLine) this.#write("\n");
    this.#insideLine = false;
    this.#write(text);
  }

  /** Writes raw bytes. If they end inside a line, the next protocol line writes the newline first. */
  bytes(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#write(bytes);
    this.#insideLine = bytes.at(-1) !== 0x0a;
  }

  /** Resolves when the reader has caught up and the commands that arrived meanwhile are handled. */
  async drained(): Promise<void> {
    if (this.#stream.writableNeedDrain) await once(this.#stream, "drain");
    await new Promise((resolve) => setImmediate(resolve));
  }

  async flush(): Promise<void> {
    await new Promise<void>((resolve) => this.#write("", () => resolve()));
  }

  /** Collects the writes of one tick, so that the reader is woken once. */
  #write(chunk: string | Uint8Array, done?: () => void): void {
    if (!this.#isCorked) {
      this.#isCorked = true;
      this.#stream.cork();
      process.nextTick(() => {
        this.#isCorked = false;
        this.#stream.uncork();
      });
    }
    this.#stream.write(chunk, done);
  }
}

const SLICE = 1 << 20;
