import { unparsedFact } from "../harness/unparsed.ts";
import { createHash } from "node:crypto";
import { findJsonExcess, type SpoolLine, type SpoolMark } from "../contract/index.ts";
import type { DecodeContext, Decoded, Harness, HarnessCommand } from "../harness/port.ts";
import type { Sandbox, SandboxFiles } from "../sandbox/port.ts";
import type { SentEntry, Spool, SpoolBatch } from "../spool/port.ts";
import { inlineImages } from "./images.ts";
import type { Logger } from "./deps.ts";
import type { Witness } from "./recorder.ts";
import type { Redactor } from "./redact.ts";

/** Every so much output the decoder's state is written down, so that the spool before it can be forgotten. */
const CHECKPOINT_BYTES = 16 * 1024 * 1024;

/** Giving space back starts a program: not worth it for less. */
const FORGET_BYTES = 4 * 1024 * 1024;

const GREETING = "greeting";

/** What became of a command: "later" is to be tried again after the agent's next words. */
export type Delivery = "sent" | "later" | "no words";

interface Checkpoint {
  readonly state: unknown;
  /** How many sent entries the state has seen. */
  readonly fed: number;
}

/** One harness process, alive or not: its spool, and the decoder's fold over both directions of it. */
export class HarnessProcess {
  readonly ordinal: number;
  readonly spool: Spool;
  readonly sandbox: Sandbox;
  readonly #harness: Harness;
  readonly redactor: Redactor;
  readonly #witness: Witness | undefined;
  readonly #logger: Logger;
  #state: unknown;
  #offset = 0;
  #sent: SentEntry[] = [];
  #sentIds = new Set<string>();
  #fed = 0;
  #checkpointAt = 0;
  #forgotten = 0;

  constructor(options: ProcessOptions) {
    this.ordinal = options.ordinal;
    this.spool = options.spool;
    this.sandbox = options.sandbox;
    this.#harness = options.harness;
    this.redactor = options.redactor;
    this.#witness = options.witness;
    this.#logger = options.logger;
    const idPrefix = itemPrefix(options.sessionKey, options.ordinal);
    this.#state = options.harness.initial({ ...options.context, idPrefix });
  }

  /** Whether it serves one turn and then ends by itself. */
  get isOneShot(): boolean {
    return this.#harness.oneShot === true;
  }

  /** Whether its own tools give way to those of the bridge. */
  get bridges(): boolean {
    return this.#harness.bridgesBuiltins === true;
  }

  /** Where its pictures are stored. */
  get place(): { files: SandboxFiles; logger: Logger } {
    return { files: this.sandbox.files, logger: this.#logger };
  }

  /** The `out` offset behind the last decoded line. */
  get offset(): number {
    return this.#offset;
  }

  /** Folds the decoder up to the committed mark, appending nothing: what an earlier life of ours had in memory. */
  async reattach(mark: (SpoolMark & { checkpointOffset?: number }) | undefined): Promise<void> {
    await this.spool.repair();
    this.#sent = [...(await this.spool.sent())];
    this.#sentIds = new Set(this.#sent.map((entry) => entry.id));
    if (mark?.process !== this.ordinal) return;
    const { checkpoint } = mark;
    if (isCheckpoint(checkpoint)) {
      this.#state = checkpoint.state;
      this.#fed = checkpoint.fed;
      this.#offset = mark.checkpointOffset ?? 0;
      this.#checkpointAt = this.#offset;
    }
    for await (const batch of this.spool.replay(this.#offset, mark.offset)) {
      for (const line of batch.lines) this.#decode(this.clean(line));
    }
    this.#offset = mark.offset;
    this.#feedSent(mark.offset);
  }

  follow(signal: AbortSignal): AsyncIterable<SpoolBatch> {
    return this.spool.follow({ from: this.#offset, signal });
  }

  /** The line as it may be seen: without the secrets that we know. */
  clean(line: SpoolLine): SpoolLine {
    const isCut = line.damage?.reason === "too_long";
    const text = isCut ? this.redactor.cut(line.text) : this.redactor.line(line.text);
    return text === line.text ? line : { ...line, text };
  }

  /** A text that came another way, without the same secrets. */
  hide(text: string): string {
    return this.redactor.text(text);
  }

  /** Decodes one clean line, after what was sent before it. `end` is the offset behind the line. */
  decode(line: SpoolLine, end: number): Decoded<unknown> {
    const decoded = this.#decode(line);
    this.#offset = end;
    return decoded;
  }

  /** Counts a batch's end, which may lie behind empty lines. */
  advance(offset: number): void {
    this.#offset = offset;
  }

  /** Says what has to be said before anything else, once. */
  async greet(): Promise<void> {
    const lines = this.#harness.greet?.(this.#state) ?? [];
    if (lines.length > 0 && !this.wasSent(GREETING)) await this.send(GREETING, lines);
  }

  /** Whether the harness could be told this now. */
  canSay(command: HarnessCommand): boolean {
    const lines = this.#harness.encode(this.#state, command);
    return lines !== undefined && lines !== "later";
  }

  /** Tells the harness, once per id whatever happens in between. */
  async deliver(id: string, command: HarnessCommand): Promise<Delivery> {
    if (this.wasSent(id)) return "sent";
    const lines = this.#harness.encode(this.#state, await inlineImages(this.place, command));
    if (lines === undefined) return "no words";
    if (lines === "later") return "later";
    await this.send(id, lines);
    return "sent";
  }

  wasSent(id: string): boolean {
    return this.#sentIds.has(id);
  }

  async send(id: string, lines: readonly string[]): Promise<void> {
    const entry = { id, at: this.#offset, text: lines.map((line) => `${line}\n`).join("") };
    if (!(await this.spool.send(entry))) return;
    this.#sent.push(entry);
    this.#sentIds.add(id);
    this.#feedSent(this.#offset);
  }

  /** Ends it and all that it started, whatever they did to escape. */
  async kill(): Promise<void> {
    await this.sandbox.killAll();
    await this.spool.killed();
  }

  /** Whether its next mark will hold the decoder's state, which must not move on before that is written. */
  get owesCheckpoint(): boolean {
    return this.#offset - this.#checkpointAt >= CHECKPOINT_BYTES;
  }

  /** The mark to commit with a batch; with the decoder's state at a turn's end, and now and then. */
  mark(options: { checkpoint: boolean }): SpoolMark {
    if (!options.checkpoint && !this.owesCheckpoint) return { process: this.ordinal, offset: this.#offset };
    const checkpoint: Checkpoint = { state: this.#state, fed: this.#fed };
    return { process: this.ordinal, offset: this.#offset, checkpoint };
  }

  /** After the commit of a mark with a checkpoint, what lies before it will never be read again. */
  async committed(mark: SpoolMark): Promise<void> {
    if (mark.checkpoint === undefined) return;
    this.#checkpointAt = mark.offset;
    if (mark.offset - this.#forgotten < FORGET_BYTES) return;
    this.#forgotten = mark.offset;
    await this.spool.forget(mark.offset);
  }

  #decode(line: SpoolLine): Decoded<unknown> {
    if (this.#fed < this.#sent.length) this.#feedSent(line.at);
    this.#witness?.(line);
    const decoded = this.#decodeSafely(line);
    this.#state = decoded.state;
    return decoded;
  }

  /** A line that its decoder fails on is kept as one that nobody knows: read again, it would fail again. */
  #decodeSafely(line: SpoolLine): Decoded<unknown> {
    try {
      // Whatever a decoder makes of it, all that comes behind walks it by recursion.
      if (findJsonExcess(line.text) === "depth") throw new Error("the line is nested too deep");
      return this.#harness.decode(this.#state, line);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      return { state: this.#state, facts: [unparsedFact(line, `the decoder failed: ${why}`)] };
    }
  }

  #feedSent(upTo: number): void {
    for (let entry = this.#sent[this.#fed]; entry && entry.at <= upTo; entry = this.#sent[this.#fed]) {
      // Seen once is seen: a long conversation's prompts need not stay in memory.
      this.#sent[this.#fed] = { ...entry, text: "" };
      this.#fed += 1;
      for (const text of entry.text.split("\n")) {
        if (text === "") continue;
        const line: SpoolLine = { dir: "in", text, at: entry.at };
        this.#witness?.(line);
        this.#state = this.#decodeSafely(line).state;
      }
    }
  }
}

function isCheckpoint(found: unknown): found is Checkpoint {
  return typeof found === "object" && found !== null && "state" in found && "fed" in found;
}

export interface ProcessOptions {
  readonly sessionKey: string;
  readonly ordinal: number;
  readonly spool: Spool;
  readonly sandbox: Sandbox;
  readonly harness: Harness;
  readonly context: Omit<DecodeContext, "idPrefix">;
  readonly redactor: Redactor;
  readonly witness?: Witness | undefined;
  readonly logger: Logger;
}

function itemPrefix(sessionKey: string, ordinal: number): string {
  const hash = createHash("sha256")
    .update(sessionKey)
    .digest("base64url")
    .replaceAll(/[-_]/g, "")
    .slice(0, 8);
  return `itm_${hash}p${ordinal}n`;
}
