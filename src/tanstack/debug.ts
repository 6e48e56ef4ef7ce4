import type { TextOptions } from "@tanstack/ai";
import { toSandboxNote, type SessionInfo } from "../contract/index.ts";
import { pathOf } from "../client/paths.ts";
import { subscribe } from "../client/subscribe.ts";
import type { Transport } from "../client/transport.ts";

/** How long the last notes of a run may take. */
const TRAILING_MS = 2_000;

/** `chat({ debug: { sandbox: true } })`: what happens to the sandbox goes to the application's logger, and nowhere else. */
export class SandboxDebug {
  readonly #transport: Transport;
  readonly #logger: TextOptions["logger"];
  readonly #session: string;
  readonly #over = new AbortController();
  #after = 0;
  #seen = 0;
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

  /** To be called before the run: what was before it is no news. */
  async begin(): Promise<void> {
    if (!this.#isWanted) return;
    const known = await this.#transport.json<SessionInfo>(pathOf(this.#session)).catch(() => undefined);
    this.#after = known?.eventCount ?? 0;
  }

  /** To be called with the place of each chunk. */
  reached(offset: string | undefined): void {
    this.#seen = Math.max(this.#seen, Number.parseInt(offset ?? "0", 10));
    if (this.#isWanted) this.#notes ??= this.#follow();
  }

  /** Answers when all is noted that happened before the last chunk. */
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
