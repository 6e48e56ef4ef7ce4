import type { TextOptions } from "@tanstack/ai";
import { subscribe } from "../client/subscribe.ts";
import { pathOf, type Transport } from "../client/transport.ts";
import { type SessionInfo, toSandboxNote } from "../contract/index.ts";

/** The time limit for the last notes of a run. */
const TRAILING_MS = 2_000;

/** `chat({ debug: { sandbox: true } })`: the sandbox's events go to the application's logger. */
export class SandboxDebug {
  readonly #transport: Transport;
  readonly #logger: TextOptions["logger"];
  readonly #session: string;
  readonly #over = new AbortController();
  #after = 0;
  /** The sequence of the newest chunk. */
  #seen = 0;
  /** The sequence of the newest event that was logged. */
  #noted = 0;
  #isOver = false;
  #notes: Promise<void> | undefined;

  constructor(options: { transport: Transport; logger: TextOptions["logger"]; session: string }) {
    this.#transport = options.transport;
    this.#logger = options.logger;
    this.#session = options.session;
  }

  get #isWanted(): boolean {
    return this.#logger.isEnabled("sandbox");
  }

  /** Notes the head of the session's log: earlier events are not logged. */
  async begin(): Promise<void> {
    if (!this.#isWanted) return;
    const known = await this.#transport.json<SessionInfo>(pathOf(this.#session)).catch(() => undefined);
    this.#after = known?.eventCount ?? 0;
  }

  /** Takes the offset of each chunk. The first one starts the logging. */
  reached(offset: string | undefined): void {
    this.#seen = Math.max(this.#seen, Number.parseInt(offset ?? "0", 10));
    if (this.#isWanted) this.#notes ??= this.#follow();
  }

  /** Resolves when all events up to the last chunk are logged, or the time limit has passed. */
  async end(): Promise<void> {
    this.#isOver = true;
    if (this.#noted >= this.#seen) this.#over.abort();
    const timer = setTimeout(() => this.#over.abort(), TRAILING_MS);
    await this.#notes;
    clearTimeout(timer);
  }

  async #follow(): Promise<void> {
    const view = { extensions: true, after: this.#after, signal: this.#over.signal };
    try {
      for await (const { type, data, sequence } of subscribe(this.#transport, this.#session, view)) {
        const note = toSandboxNote(type, data);
        if (note) this.#logger.sandbox(`sluice: ${type}`, note);
        this.#noted = sequence;
        if (this.#isOver && sequence >= this.#seen) return;
      }
    } catch (error) {
      this.#logger.sandbox("sluice: the sandbox cannot be followed", { error: String(error) });
    }
  }
}
