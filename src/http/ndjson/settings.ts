import { REPLAY_TURN_LIMIT } from "../../dialects/ndjson/index.ts";

export interface NdjsonSettings {
  /** How many turns of a conversation an agent is given with a prompt. */
  readonly replayTurnLimit: number;
  /** How long the password for a run's assets is good. */
  readonly uploadTtlMs: number;
  /** How long the address of a turn's events is good for a browser, which has no way to send a token. */
  readonly ticketTtlMs: number;
  /** How long a browser may be away before its run is taken for left: it comes back by itself after a cut. */
  readonly reconnectMs: number;
}

export const NDJSON_SETTINGS: NdjsonSettings = {
  replayTurnLimit: REPLAY_TURN_LIMIT,
  uploadTtlMs: 60 * 60_000,
  ticketTtlMs: 24 * 60 * 60_000,
  reconnectMs: 2_500,
};
