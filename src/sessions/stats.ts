import type { SessionDeps } from "./deps.ts";
import type { Drafts } from "./fold/drafts.ts";
import { ModelCounters } from "./model-counters.ts";
import type { EngineStats } from "./port.ts";
import type { Session } from "./session.ts";

/** The counters of an engine since its start. */
export class EngineCounters {
  #turnsEnded = 0;
  #eventsAppended = 0;
  #batchesAppended = 0;
  #appendFailures = 0;
  readonly #models = new ModelCounters();

  appended({ events, endsTurn }: Drafts): void {
    this.#models.add(events);
    this.#batchesAppended += 1;
    this.#eventsAppended += events.length;
    if (endsTurn) this.#turnsEnded += 1;
  }

  appendFailed(): void {
    this.#appendFailures += 1;
  }

  stats(open: readonly Session[], { starts, resting }: SessionDeps): EngineStats {
    return {
      turnsEnded: this.#turnsEnded,
      eventsAppended: this.#eventsAppended,
      batchesAppended: this.#batchesAppended,
      appendFailures: this.#appendFailures,
      models: this.#models.all,
      sessionsLive: open.length,
      turnsRunning: open.filter((session) => session.hasTurn).length,
      processesRunning: open.filter((session) => session.hasProcess).length,
      starts: starts.stats,
      resting: resting.stats,
    };
  }
}
