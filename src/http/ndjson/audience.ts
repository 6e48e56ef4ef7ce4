import type { Engine } from "../../sessions/port.ts";
import type { Logger } from "../logger.ts";
import type { StreamEnd } from "../sse.ts";
import { hasTurnStarted } from "../turn-start.ts";

interface Watched {
  readers: number;
  /** Set while the last reader is away and may come back. */
  absence: NodeJS.Timeout | undefined;
}

/** Called when a reader's stream is over. */
export type Leave = (why: StreamEnd) => void;

/** Knows who follows which turn, and ends a turn that its last reader has left. */
export class Audience {
  readonly #engine: Engine;
  readonly #logger: Logger;
  readonly #turns = new Map<string, Watched>();
  readonly #closing = new AbortController();

  constructor(engine: Engine, logger: Logger) {
    this.#engine = engine;
    this.#logger = logger;
  }

  /** A reader comes whose leaving counts. */
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

  /** The server ends: what runs goes on, and nobody is waited for. */
  close(): void {
    this.#closing.abort();
    for (const { absence } of this.#turns.values()) clearTimeout(absence);
    this.#turns.clear();
  }

  async #cancel(session: string, turn: string): Promise<void> {
    try {
      if (await hasTurnStarted(this.#engine, { session, turn }, this.#closing.signal)) {
        await this.#engine.interrupt(session, { by: "disconnect", turnId: turn, stop: true });
      }
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      const message = "A run that its reader left could not be cancelled";
      this.#logger({ level: "warn", message, session, turn, error: String(error) });
    }
  }
}
