import { once } from "node:events";
import type { Writable } from "node:stream";
import type { AgentLine } from "../protocol.ts";

/** The agent's stdout: whole lines in order, and raw bytes where a script asks for them. */
export class Output {
  readonly #stream: Writable;
  #insideLine = false;
  #isHeld = false;

  constructor(stream: Writable) {
    this.#stream = stream;
  }

  line(line: AgentLine): void {
    this.text(`${JSON.stringify(line)}\n`);
  }

  /** A line whose last key holds a text in pieces: their sum may be longer than a string can be. */
  longLine(head: Partial<AgentLine>, key: string, pieces: readonly string[]): void {
    this.text(`${JSON.stringify(head).slice(0, -1)},${JSON.stringify(key)}:"`);
    for (const piece of pieces) {
      for (let at = 0; at < piece.length; at += SLICE) {
        this.#write(JSON.stringify(piece.slice(at, at + SLICE)).slice(1, -1));
      }
    }
    this.#write('"}\n');
  }

  /** Whole lines, each with its newline. */
  text(text: string): void {
    if (this.#insideLine) this.#write("\n");
    this.#insideLine = false;
    this.#write(text);
  }

  /** As they are. An unterminated line ends where the next protocol line begins, or never. */
  bytes(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#write(bytes);
    this.#insideLine = bytes.at(-1) !== 0x0a;
  }

  /** Resolves when the reader has caught up; commands that arrived meanwhile are handled first. */
  async drained(): Promise<void> {
    if (this.#stream.writableNeedDrain) await once(this.#stream, "drain");
    await new Promise((resolve) => setImmediate(resolve));
  }

  async flush(): Promise<void> {
    await new Promise<void>((resolve) => this.#write("", () => resolve()));
  }

  /** What is written within one tick goes out at once: whoever reads it is woken once. */
  #write(chunk: string | Uint8Array, done?: () => void): void {
    if (!this.#isHeld) {
      this.#isHeld = true;
      this.#stream.cork();
      process.nextTick(() => {
        this.#isHeld = false;
        this.#stream.uncork();
      });
    }
    this.#stream.write(chunk, done);
  }
}

const SLICE = 1 << 20;
