import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** What the agent remembers of a session, in one file that is replaced as a whole. */
export class Memory {
  readonly id: string;
  /** How many processes have continued this session, this one included. */
  readonly process: number;
  readonly #file: string;
  readonly #texts: string[];
  /** How many characters a model would have to read again. */
  #chars: number;
  /** Where the running turn's own text begins in `#texts`. */
  #earlier: number;

  private constructor(file: string, kept: Kept) {
    this.#file = file;
    this.id = kept.id;
    this.process = kept.process;
    this.#texts = kept.texts;
    this.#chars = kept.chars;
    this.#earlier = kept.texts.length;
  }

  static create(home: string): Memory {
    const id = newId();
    const memory = new Memory(fileOf(home, id), { id, process: 1, texts: [], chars: 0 });
    mkdirSync(folderOf(home), { recursive: true, mode: 0o700 });
    memory.save();
    return memory;
  }

  /** undefined where nothing is remembered under that id. */
  static resume(home: string, id: string): Memory | undefined {
    if (!/^[A-Za-z0-9._-]+$/.test(id)) return undefined;
    const kept = readKept(fileOf(home, id));
    if (kept === undefined) return undefined;
    const memory = new Memory(fileOf(home, id), { ...kept, process: kept.process + 1 });
    memory.save();
    return memory;
  }

  get turns(): number {
    return this.#texts.length;
  }

  get chars(): number {
    return this.#chars;
  }

  /** Every earlier user text, one per line. */
  get history(): string {
    return this.#texts.slice(0, this.#earlier).join("\n");
  }

  /** What somebody says was said before stands where the memory was. */
  recall(turns: readonly { user?: string }[]): void {
    const texts = turns.flatMap(({ user }) => (user === undefined ? [] : [user]));
    this.#texts.splice(0, Infinity, ...texts);
    this.#chars = texts.join("").length;
  }

  hear(text: string): void {
    this.#earlier = this.#texts.length;
    this.#texts.push(text);
    this.#chars += text.length;
  }

  say(chars: number): void {
    this.#chars += chars;
  }

  compact(summary: string): void {
    this.#chars = summary.length;
  }

  save(): void {
    const kept: Kept = { id: this.id, process: this.process, texts: this.#texts, chars: this.#chars };
    const draft = `${this.#file}.${process.pid}.tmp`;
    writeFileSync(draft, JSON.stringify(kept), { mode: 0o600 });
    renameSync(draft, this.#file);
  }
}

interface Kept {
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

function readKept(file: string): Kept | undefined {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as Kept;
  } catch {
    return undefined;
  }
}

/** The kernel's own, where it has one: to load a library for it would cost a twentieth of the agent's start. */
function newId(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/uuid", "utf8").trim();
  } catch {
    return process.getBuiltinModule("node:crypto").randomUUID();
  }
}
