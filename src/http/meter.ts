/** Counters since the start of the server. */
export class Meter {
  /** Open event streams. */
  readers = 0;
  frames = 0;
  bytes = 0;
  readonly requests: Record<"1xx" | "2xx" | "3xx" | "4xx" | "5xx", number> = {
    "1xx": 0,
    "2xx": 0,
    "3xx": 0,
    "4xx": 0,
    "5xx": 0,
  };

  callbacksAccepted = 0;
  readonly callbacksRefused: Record<"bad_signature" | "expired" | "replayed" | "stale_run", number> = {
    bad_signature: 0,
    expired: 0,
    replayed: 0,
    stale_run: 0,
  };

  count(status: number): void {
    const kind = `${Math.floor(status / 100)}xx` as keyof Meter["requests"];
    if (kind in this.requests) this.requests[kind] += 1;
  }
}
