import type { Engine } from "../../sessions/port.ts";
import type { Logger } from "../context.ts";
import { interruptTurn } from "../interrupt.ts";
import type { StreamEnd } from "../stream/sse.ts";

interface Watched {
  readers: number;
  /** Set while the last reader is away and may come back. */
  absence: NodeJS.Timeout | undefined;
}

/** Called at the end of a reader's stream. */
export type Leave = (why: StreamEnd) => void;

/** Counts the readers of turns, and ends a turn that its last reader has left. */
export class TurnReaders {
  readonly #engine: Engine;
  readonly #logger: Logger;
  readonly #turns = new Map<string, Watched>();
  readonly #closing = new AbortController();

  constructor(engine: Engine, logger: Logger) {
    this.#engine = engine;
    this.#logger = logger;
  }

  /** Adds a reader; the returned function removes it. */
  enter(session: string, turn: string, { graceMs }: { graceMs: number }): Leave {
    const watched = this.#turns.get(turn) ?? { readers: 0, absence: undefined };
    clearTimeout(watched.absence);
    watched.absence = undefined;
    watched.readers += 1;
    this.#turns.set(turn, watched);
    return (why) => {
      watched.readers -= 1;
      if (watched.readers > 0) return;
      if (why !== "gone" || this.#closing.signal.aborted) return void this.#turns.delete(turn);
      const leave = (): void => {
        this.#turns.delete(turn);
        void this.#cancel(session, turn);
      };
      if (graceMs === 0) return leave();
      watched.absence = setTimeout(leave, graceMs);
      watched.absence.unref();
    };
  }

  /** For the close of the server: turns continue, and the waits for absent readers end. */
  close(): void {
    this.#closing.abort();
    for (const { absence } of this.#turns.values()) clearTimeout(absence);
    this.#turns.clear();
  }

  async #cancel(session: string, turn: string): Promise<void> {
    try {
      await interruptTurn(this.#engine, { session, turn, by: "disconnect" }, this.#closing.signal);
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      const message = "A run that its reader left could not be cancelled";
      this.#logger({ level: "warn", message, session, turn, error: String(error) });
    }
  }
}
