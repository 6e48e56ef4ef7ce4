import { appendFileSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** What the agent remembers of a session, in one file: what it was at first, and a line for each change since. */
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
  /** How many of the texts are in the file; undefined when it has to be written anew. */
  #saved: number | undefined;

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
    this.#saved = undefined;
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
    if (this.#saved === undefined) return this.#saveAll();
    const texts = this.#texts.slice(this.#saved);
    // Before it is written: a line that was torn is followed by the whole of it.
    this.#saved = undefined;
    appendFileSync(this.#file, toLine({ texts, chars: this.#chars }));
    this.#saved = this.#texts.length;
  }

  #saveAll(): void {
    const kept: Kept = { id: this.id, process: this.process, texts: this.#texts, chars: this.#chars };
    const draft = `${this.#file}.${process.pid}.tmp`;
    writeFileSync(draft, toLine(kept), { mode: 0o600 });
    renameSync(draft, this.#file);
    this.#saved = this.#texts.length;
  }
}

/** What was heard since the line before, and what all of it weighs now. */
type Change = Pick<Kept, "texts" | "chars">;

function toLine(value: Kept | Change): string {
  return `${JSON.stringify(value)}\n`;
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
    const [first = "", ...rest] = readFileSync(file, "utf8").split("\n");
    const kept = JSON.parse(first) as Kept;
    // What stands behind the last newline is a line that was torn.
    for (const line of rest.slice(0, -1)) {
      const change = JSON.parse(line) as Change;
      kept.texts.push(...change.texts);
      kept.chars = change.chars;
    }
    return kept;
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
