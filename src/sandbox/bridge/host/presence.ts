import type { Socket } from "node:net";

/** For the first guest: its sandbox may be slow to start. */
const FIRST_MS = 60_000;

/** Counts the guests, and tells when there has been none for a while. */
export class Presence {
  readonly #graceMs: number;
  readonly #onGone: () => void;
  readonly #guests = new Set<Socket>();
  #timer: NodeJS.Timeout;
  #dismissed = false;

  constructor(graceMs: number, onGone: () => void) {
    this.#graceMs = graceMs;
    this.#onGone = onGone;
    this.#timer = setTimeout(onGone, Math.max(graceMs, FIRST_MS));
  }

  add(guest: Socket): void {
    clearTimeout(this.#timer);
    this.#guests.add(guest);
    guest.on("close", () => this.#remove(guest));
    if (guest.destroyed) this.#remove(guest);
  }

  /** Sends the guests to a successor, and waits for none any more. */
  dismiss(): void {
    this.#dismissed = true;
    clearTimeout(this.#timer);
    for (const guest of this.#guests) guest.destroy();
  }

  #remove(guest: Socket): void {
    this.#guests.delete(guest);
    if (this.#guests.size > 0 || this.#dismissed) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#onGone, this.#graceMs);
  }
}
