/** A timed action of a session. Its moment follows from the log, so that a restart does not change it. */
export interface Due {
  readonly what: "retry" | "timeout" | "silence" | "signal" | "kill" | "sleep" | "budget";
  readonly at: number;
  /** The longest wait, also for a clock that was set back. */
  readonly withinMs: number;
}

export function toDue(what: Due["what"], since: number, withinMs: number): Due {
  return { what, at: since + withinMs, withinMs };
}

/** Named alarms of one session. Setting a name to the same moment again has no effect, even after it has rung. */
export class Alarms {
  readonly #alarms = new Map<string, { at: number; timer: NodeJS.Timeout | undefined }>();

  /** `at` is a wall-clock time, and that clock may be set. So the wait is never longer than `withinMs`. */
  set(name: string, { at, withinMs }: { at: number; withinMs: number }, ring: () => void): void {
    if (this.#alarms.get(name)?.at === at) return;
    this.clear(name);
    const wait = Math.max(0, Math.min(at - Date.now(), withinMs));
    this.#arm(name, { at, until: performance.now() + wait }, ring);
  }

  clear(name: string): void {
    clearTimeout(this.#alarms.get(name)?.timer);
    this.#alarms.delete(name);
  }

  /** Clears every alarm but the named ones. */
  keepOnly(names: ReadonlySet<string>): void {
    for (const name of this.#alarms.keys()) if (!names.has(name)) this.clear(name);
  }

  #arm(name: string, { at, until }: { at: number; until: number }, ring: () => void): void {
    const left = until - performance.now();
    // A limit of a session may be longer than setTimeout can wait, which is 2^31 ms.
    const timer = setTimeout(
      () => {
        if (performance.now() < until) return this.#arm(name, { at, until }, ring);
        this.#alarms.set(name, { at, timer: undefined });
        ring();
      },
      Math.max(0, Math.min(Math.ceil(left), 2 ** 30)),
    );
    this.#alarms.set(name, { at, timer });
  }
}
