import { appendFileSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** The agent's memory of a session, in one file: the first line is a state, each later line a change of it. */
export class Memory {
  readonly id: string;
  /** The number of this process in the session, from 1. */
  readonly process: number;
  readonly #file: string;
  readonly #texts: string[];
  /** Characters in the conversation, for the estimate of tokens. */
  #chars: number;
  /** The count of texts before the running turn. */
  #earlier: number;
  /** The count of texts in the file; undefined if the file has to be rewritten. */
  #saved: number | undefined;

  private constructor(file: string, stored: StoredMemory) {
    this.#file = file;
    this.id = stored.id;
    this.process = stored.process;
    this.#texts = stored.texts;
    this.#chars = stored.chars;
    this.#earlier = stored.texts.length;
  }

  static create(home: string): Memory {
    const id = newId();
    const memory = new Memory(fileOf(home, id), { id, process: 1, texts: [], chars: 0 });
    mkdirSync(folderOf(home), { recursive: true, mode: 0o700 });
    memory.save();
    return memory;
  }

  /** Undefined for an unknown id. */
  static resume(home: string, id: string): Memory | undefined {
    if (!/^[A-Za-z0-9._-]+$/.test(id)) return undefined;
    const stored = readMemory(fileOf(home, id));
    if (stored === undefined) return undefined;
    const memory = new Memory(fileOf(home, id), { ...stored, process: stored.process + 1 });
    memory.save();
    return memory;
  }

  get turns(): number {
    return this.#texts.length;
  }

  get chars(): number {
    return this.#chars;
  }

  /** The user's texts before the running turn, one per line. */
  get history(): string {
    return this.#texts.slice(0, this.#earlier).join("\n");
  }

  /** Replaces the memory by a given conversation. */
  recall(turns: readonly { user?: string }[]): void {
    const texts = turns.flatMap(({ user }) => (user === undefined ? [] : [user]));
    this.#texts.splice(0, Infinity, ...texts);
    this.#saved = undefined;
    this.#chars = texts.join("").length;
  }

  addPrompt(text: string): void {
    this.#earlier = this.#texts.length;
    this.#texts.push(text);
    this.#chars += text.length;
  }

  addOutput(chars: number): void {
    this.#chars += chars;
  }

  compact(summary: string): void {
    this.#chars = summary.length;
  }

  save(): void {
    if (this.#saved === undefined) return this.#saveAll();
    const texts = this.#texts.slice(this.#saved);
    // Undefined during the write: if it fails half-way, the next save rewrites the file.
    this.#saved = undefined;
    appendFileSync(this.#file, toLine({ texts, chars: this.#chars }));
    this.#saved = this.#texts.length;
  }

  #saveAll(): void {
    const stored: StoredMemory = {
      id: this.id,
      process: this.process,
      texts: this.#texts,
      chars: this.#chars,
    };
    const temporary = `${this.#file}.${process.pid}.tmp`;
    writeFileSync(temporary, toLine(stored), { mode: 0o600 });
    renameSync(temporary, this.#file);
    this.#saved = this.#texts.length;
  }
}

/** The texts since the last line, and the length of the whole conversation. */
type Change = Pick<StoredMemory, "texts" | "chars">;

function toLine(value: StoredMemory | Change): string {
  return `${JSON.stringify(value)}\n`;
}

interface StoredMemory {
  id: string;
  process: number;
  texts: string[];
  chars: number;
}

function folderOf(home: string): string {
  return join(home, ".scripted");
}

function fileOf(home: string, id: string): string {
  return join(folderOf(home), `${id}.json`);
}

function readMemory(file: string): StoredMemory | undefined {
  try {
    const [first = "", ...rest] = readFileSync(file, "utf8").split("\n");
    const stored = JSON.parse(first) as StoredMemory;
    // Text after the last newline is a torn line.
    for (const line of rest.slice(0, -1)) {
      const change = JSON.parse(line) as Change;
      stored.texts.push(...change.texts);
      stored.chars = change.chars;
    }
    return stored;
  } catch {
    return undefined;
  }
}

/** A UUID, from the kernel if it offers one: loading `node:crypto` takes a twentieth of the agent's start. */
function newId(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/uuid", "utf8").trim();
  } catch {
    return process.getBuiltinModule("node:crypto").randomUUID();
  }
}
