import type { Screen } from "./screen.ts";

const SILENCE_MS = 2_000;
const TICK_MS = 1_000;

/** A status line below a silent transcript. It says that the agent works, and for how long. Terminals only. */
export class BusyLine {
  readonly #screen: Screen;
  /** Whether the line belongs to something else, such as a question. */
  readonly #isTaken: () => boolean;
  readonly #hint: string;
  #timer: NodeJS.Timeout | undefined;
  #since = 0;
  #lastOutput = 0;

  constructor(screen: Screen, options: { isTaken: () => boolean; hint?: string }) {
    this.#screen = screen;
    this.#hint = options.hint ?? "Ctrl-C interrupts";
    this.#isTaken = options.isTaken;
  }

  /** `since` is the start of the work, in milliseconds since 1970. */
  start(since = Date.now()): void {
    if (!this.#screen.isLive || this.#timer) return;
    this.#since = since;
    this.#lastOutput = performance.now();
    this.#timer = setInterval(() => this.#show(), TICK_MS);
    this.#timer.unref();
  }

  /** Call for each output of the agent. */
  touch(): void {
    this.#lastOutput = performance.now();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#screen.status("");
  }

  #show(): void {
    const isSilent = performance.now() - this.#lastOutput >= SILENCE_MS;
    if (!isSilent || this.#isTaken() || !this.#screen.isAtLineStart) return;
    const text = `· working, ${toClock(Math.max(0, Date.now() - this.#since))} · ${this.#hint}`;
    this.#screen.status(text, this.#screen.page.paint.dim);
  }
}

/** 7 s, 2 min 5 s, 1 h 3 min. */
function toClock(ms: number): string {
  const seconds = Math.floor(ms / 1_000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3_600)} h ${Math.floor((seconds % 3_600) / 60)} min`;
}
