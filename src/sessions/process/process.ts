import { unparsedFact } from "../../harness/unparsed.ts";
import { createHash } from "node:crypto";
import { findJsonExcess, type SpoolLine, type SpoolMark } from "../../contract/index.ts";
import type { DecodeContext, Decoded, Harness, HarnessCommand } from "../../harness/port.ts";
import type { Sandbox, SandboxFiles } from "../../sandbox/port.ts";
import type { SentEntry, Spool, SpoolBatch } from "../../spool/port.ts";
import { isTooLong } from "../fold/long-texts.ts";
import { inlineImages } from "../inbox/images.ts";
import type { Logger } from "../deps.ts";
import type { Witness } from "../secrets/recorder.ts";
import type { Redactor } from "../secrets/redact.ts";

/** After this much output the decoder's state is stored, so that the spool before it can be freed. */
const STATE_BYTES = 16 * 1024 * 1024;

/** The least space that is freed at once, because a program is started each time. */
const FORGET_BYTES = 4 * 1024 * 1024;

const GREETING = "greeting";

/** The result of a delivery. "later" is tried again after the agent's next output. */
export type Delivery = "sent" | "later" | "unsupported";

interface DecoderState {
  readonly state: unknown;
  /** The number of sent entries that the state includes. */
  readonly fed: number;
}

/** One harness process, alive or not: its spool, and the state of the decoder over both directions. */
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
  #storedAt = 0;
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

  /** Its name in the sandbox. */
  get name(): string {
    return String(this.ordinal);
  }

  /** Whether it serves one turn and then exits. */
  get isOneShot(): boolean {
    return this.#harness.oneShot === true;
  }

  /** Whether the tool server offers built-in tools in place of the agent's own. */
  get bridges(): boolean {
    return this.#harness.bridgesBuiltins === true;
  }

  get imageStore(): { files: SandboxFiles; logger: Logger } {
    return { files: this.sandbox.files, logger: this.#logger };
  }

  /** The item of the call that started a sub-agent, by the CLI's own id of the agent. */
  parentOf(agent: string): string | undefined {
    return this.#harness.parentOf?.(this.#state, agent);
  }

  /** The `out` offset behind the last drafted line. */
  get offset(): number {
    return this.#offset;
  }

  /** Brings the decoder's state up to the committed mark, without appending anything. */
  async reattach(mark: (SpoolMark & { checkpointOffset?: number }) | undefined): Promise<void> {
    await this.spool.repair();
    this.#sent = [...(await this.spool.sent())];
    this.#sentIds = new Set(this.#sent.map((entry) => entry.id));
    if (mark?.process !== this.ordinal) return;
    const { checkpoint } = mark;
    if (isDecoderState(checkpoint)) {
      this.#state = checkpoint.state;
      this.#fed = checkpoint.fed;
      this.#offset = mark.checkpointOffset ?? 0;
      this.#storedAt = this.#offset;
    }
    for await (const batch of this.spool.replay(this.#offset, mark.offset)) {
      for (const line of batch.lines) this.decode(this.clean(line));
    }
    this.#offset = mark.offset;
    this.#feedSent(mark.offset);
  }

  follow(signal: AbortSignal): AsyncIterable<SpoolBatch> {
    return this.spool.follow({ from: this.#offset, signal });
  }

  /** The line without known secrets. */
  clean(line: SpoolLine): SpoolLine {
    const isCut = line.damage?.reason === "too_long";
    const text = isCut ? this.redactor.cut(line.text) : this.redactor.line(line.text);
    return text === line.text ? line : { ...line, text };
  }

  /** Any other text without known secrets. */
  hide(text: string): string {
    return this.redactor.text(text);
  }

  /** Moves the offset behind a line whose facts are drafted, or to the end of a batch that ends with empty lines. */
  advance(offset: number): void {
    this.#offset = offset;
  }

  /** Sends the harness's greeting, once. */
  async greet(): Promise<void> {
    const lines = this.#harness.greet?.(this.#state) ?? [];
    if (lines.length > 0 && !this.wasSent(GREETING)) await this.send(GREETING, lines);
  }

  /** Whether the harness can take this command now. */
  canSay(command: HarnessCommand): boolean {
    const lines = this.#harness.encode(this.#state, command);
    return lines !== undefined && lines !== "later";
  }

  /** Sends the command, exactly once per id. */
  async deliver(id: string, command: HarnessCommand): Promise<Delivery> {
    if (this.wasSent(id)) return "sent";
    const lines = this.#harness.encode(this.#state, await inlineImages(this.imageStore, command));
    if (lines === undefined) return "unsupported";
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

  /** Kills the process and everything in its sandbox. */
  async kill(): Promise<void> {
    await this.sandbox.killAll();
    await this.spool.killed();
  }

  /** Whether the next mark has to hold the decoder's state. The state must not change before that mark is committed. */
  get owesState(): boolean {
    return this.#offset - this.#storedAt >= STATE_BYTES;
  }

  /** The mark to commit with a batch. It holds the decoder's state at a turn's end, and after much output. */
  mark(options: { withState: boolean }): SpoolMark {
    if (!options.withState && !this.owesState) return { process: this.ordinal, offset: this.#offset };
    const checkpoint: DecoderState = { state: this.#state, fed: this.#fed };
    if (isTooLong(checkpoint)) {
      // The state is too long to be stored, so the spool keeps the output. The next try comes after `STATE_BYTES` more.
      this.#storedAt = this.#offset;
      return { process: this.ordinal, offset: this.#offset };
    }
    return { process: this.ordinal, offset: this.#offset, checkpoint };
  }

  /** Frees the spool before a committed decoder state. */
  async committed(mark: SpoolMark): Promise<void> {
    if (mark.checkpoint === undefined) return;
    this.#storedAt = mark.offset;
    if (mark.offset - this.#forgotten < FORGET_BYTES) return;
    this.#forgotten = mark.offset;
    await this.spool.forget(mark.offset);
  }

  /** Decodes one clean line, after the input that was sent before it. */
  decode(line: SpoolLine): Decoded<unknown> {
    if (this.#fed < this.#sent.length) this.#feedSent(line.at);
    this.#witness?.(line);
    const decoded = this.#decodeSafely(line);
    this.#state = decoded.state;
    return decoded;
  }

  /** A line that the decoder fails on becomes `agent.unparsed`: another try would fail too. */
  #decodeSafely(line: SpoolLine): Decoded<unknown> {
    try {
      // All later code walks the value by recursion, which would overflow the stack.
      if (findJsonExcess(line.text) === "depth") throw new Error("the line is nested too deep");
      return this.#harness.decode(this.#state, line);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      return { state: this.#state, facts: [unparsedFact(line, `the decoder failed: ${why}`)] };
    }
  }

  #feedSent(upTo: number): void {
    for (let entry = this.#sent[this.#fed]; entry && entry.at <= upTo; entry = this.#sent[this.#fed]) {
      // A decoded prompt need not stay in memory.
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

function isDecoderState(found: unknown): found is DecoderState {
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
