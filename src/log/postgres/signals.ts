import { randomBytes } from "node:crypto";
import type { Connections } from "../../postgres/connections.ts";

const CHANNEL = "sluice_log";
const GATHER_MS = 3;
const POLL_MS = 1_000;
/** A message has at most 8,000 bytes. */
const PER_MESSAGE = 300;

export interface SignalHost {
  /** Another node has written: the head of each session by its ordinal, or undefined if it was removed or created. */
  heard(heads: ReadonlyMap<number, number | undefined>): void;
  /** Looks at the sessions that somebody waits for. */
  poll(): Promise<void>;
}

/** Tells the other nodes of commits, and hears of theirs. A signal is a hint: the poll finds a write whose signal was lost. */
export class Signals {
  readonly #database: Connections;
  readonly #listening: Connections | undefined;
  readonly #host: SignalHost;
  readonly #name = randomBytes(6).toString("hex");
  readonly #gathered = new Map<number, number | undefined>();
  #gathering: NodeJS.Timeout | undefined;
  #poll: NodeJS.Timeout | undefined;
  #isPolling = false;
  #unlisten: (() => Promise<void>) | undefined;
  #isClosed = false;
  /** Whether a notification was ever heard. Behind a pooler in transaction mode none is. */
  hears = false;

  constructor(database: Connections, listening: Connections | undefined, host: SignalHost) {
    this.#database = database;
    this.#listening = listening;
    this.#host = host;
  }

  /** Begins to listen, and sends a message to itself: if it is heard, the others are heard as well. */
  async start(): Promise<void> {
    if (!this.#listening) return;
    const connected = (): void => {
      // Signals that were sent while the connection was broken are lost.
      void this.#look();
      void this.#send([`${this.#name}?`]).catch(() => {});
    };
    this.#unlisten = await this.#listening.listen(CHANNEL, {
      message: (text) => this.#heard(text),
      connected,
    });
    if (this.#isClosed) await this.#unlisten();
  }

  /** Tells the others soon. `head` is absent for a session that was created or removed. */
  tell(ordinal: number, head?: number): void {
    this.#gathered.set(ordinal, head);
    this.#gathering ??= setTimeout(() => this.#flush(), GATHER_MS).unref();
  }

  /** Polls while somebody waits. */
  watch(isOn: boolean): void {
    clearInterval(this.#poll);
    this.#poll = undefined;
    if (isOn && !this.#isClosed) this.#poll = setInterval(() => void this.#look(), POLL_MS);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.watch(false);
    clearTimeout(this.#gathering);
    this.#flush();
    await this.#unlisten?.().catch(() => {});
  }

  async #look(): Promise<void> {
    if (this.#isPolling || this.#isClosed) return;
    this.#isPolling = true;
    // The database may be away: the next round looks again.
    await this.#host.poll().catch(() => {});
    this.#isPolling = false;
  }

  #flush(): void {
    this.#gathering = undefined;
    const words = [...this.#gathered].map(([ordinal, head]) => `${ordinal}:${head ?? ""}`);
    this.#gathered.clear();
    const messages: string[] = [];
    for (let at = 0; at < words.length; at += PER_MESSAGE)
      messages.push(`${this.#name} ${words.slice(at, at + PER_MESSAGE).join(" ")}`);
    if (messages.length > 0) void this.#send(messages).catch(() => {});
  }

  /** In a transaction of its own that does not wait for the disk: inside of an append it would slow all appends down. */
  async #send(messages: readonly string[]): Promise<void> {
    for (const message of messages)
      await this.#database.query("SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)", [
        CHANNEL,
        message,
      ]);
  }

  #heard(text: string): void {
    this.hears = true;
    if (text.startsWith(this.#name)) return;
    const heads = new Map<number, number | undefined>();
    for (const word of text.split(" ").slice(1)) {
      const [ordinal, head] = word.split(":");
      heads.set(Number(ordinal), head ? Number(head) : undefined);
    }
    if (heads.size > 0) this.#host.heard(heads);
  }
}
