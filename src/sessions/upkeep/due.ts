/** A timed action of a session. Its moment follows from the log, so that a restart does not change it. */
export interface Due {
  readonly what: "retry" | "timeout" | "silence" | "signal" | "kill" | "sleep";
  readonly at: number;
  /** The longest wait, also for a clock that was set back. */
  readonly withinMs: number;
}

export function toDue(what: Due["what"], since: number, withinMs: number): Due {
  return { what, at: since + withinMs, withinMs };
}
