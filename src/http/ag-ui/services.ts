import type { KeyedLock } from "../anthropic/keyed-lock.ts";
import type { Logger } from "../logger.ts";
import type { Services } from "../services.ts";
import type { SessionIndex } from "./session-index.ts";

/** What the routes of this dialect work with. */
export interface AgUiServices extends Services {
  /** Clients that come back may know only the run. */
  readonly runs: SessionIndex;
  /** Threads that are another session than the one that is called like them. */
  readonly aliases: SessionIndex;
  /** One run of a thread is begun at a time. */
  readonly threads: KeyedLock;
  readonly logger: Logger;
}
