import type { Socket } from "node:net";

/** For the first connection: its sandbox may be slow to start. */
const FIRST_MS = 60_000;

/** Counts the connections, guests' and others', and tells when there has been none for a while. */
export class Presence {
  readonly #graceMs: number;
  readonly #onGone: () => void;
  readonly #open = new Set<Socket>();
  readonly #guests = new Set<Socket>();
  #timer: NodeJS.Timeout;
  #dismissed = false;

  constructor(graceMs: number, onGone: () => void) {
    this.#graceMs = graceMs;
    this.#onGone = onGone;
    this.#timer = setTimeout(onGone, Math.max(graceMs, FIRST_MS));
  }

  /** Somebody came; a sandbox may end before its guest ever tells of itself. */
  add(connection: Socket): void {
    clearTimeout(this.#timer);
    this.#open.add(connection);
    connection.on("close", () => this.#remove(connection));
    if (connection.destroyed) this.#remove(connection);
  }

  /** The connection is one that a guest keeps open as long as it lives. */
  welcome(guest: Socket): void {
    this.#guests.add(guest);
  }

  /** Sends the guests to a successor, and waits for nobody any more. */
  dismiss(): void {
    this.#dismissed = true;
    clearTimeout(this.#timer);
    for (const guest of this.#guests) guest.destroy();
  }

  #remove(connection: Socket): void {
    this.#guests.delete(connection);
    this.#open.delete(connection);
    if (this.#open.size > 0 || this.#dismissed) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#onGone, this.#graceMs);
  }
}
