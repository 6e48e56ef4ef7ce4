import type { KeyedLock } from "../anthropic/keyed-lock.ts";
import type { Services } from "../services.ts";
import type { RunIndex } from "./run-index.ts";

/** What the routes of this dialect work with. */
export interface AgUiServices extends Services {
  readonly runs: RunIndex;
  /** One run of a thread is begun at a time. */
  readonly threads: KeyedLock;
}
