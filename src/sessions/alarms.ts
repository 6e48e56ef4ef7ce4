/** Named alarms of one session. Setting a name again to the same moment changes nothing, also once it has rung. */
export class Alarms {
  readonly #alarms = new Map<string, { at: number; timer: NodeJS.Timeout | undefined }>();

  set(name: string, at: number, ring: () => void): void {
    if (this.#alarms.get(name)?.at === at) return;
    this.clear(name);
    this.#arm(name, at, ring);
  }

  clear(name: string): void {
    clearTimeout(this.#alarms.get(name)?.timer);
    this.#alarms.delete(name);
  }

  /** Clears every alarm but the named ones. */
  keepOnly(names: ReadonlySet<string>): void {
    for (const name of this.#alarms.keys()) if (!names.has(name)) this.clear(name);
  }

  #arm(name: string, at: number, ring: () => void): void {
    // setTimeout cannot wait longer than 2^31 ms; a session's limits may.
    const wait = Math.max(0, Math.min(at - Date.now(), 2 ** 30));
    const timer = setTimeout(() => {
      if (Date.now() < at) return this.#arm(name, at, ring);
      this.#alarms.set(name, { at, timer: undefined });
      ring();
    }, wait);
    this.#alarms.set(name, { at, timer });
  }
}
