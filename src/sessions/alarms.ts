/** Named alarms of one session. Setting a name again to the same moment changes nothing, also once it has rung. */
export class Alarms {
  readonly #alarms = new Map<string, { at: number; timer: NodeJS.Timeout | undefined }>();

  /** The moment is one of the log's clock, which may be set meanwhile: it is never waited for longer than `withinMs`. */
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
    // setTimeout cannot wait longer than 2^31 ms; a session's limits may.
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
