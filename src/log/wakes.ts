/** The readers that wait at the head, each with a cursor and a promise. */
export class Wakes {
  readonly #waiting = new Map<string, Set<Waiter>>();
  readonly #signals = new Map<AbortSignal, SharedListener>();
  readonly #observers = new Set<SessionObserver>();
  readonly #onIdle: (idle: boolean) => void;

  /** `onIdle` gets false when the first waiter or observer comes, and true when the last one goes. */
  constructor(onIdle: (idle: boolean) => void = () => {}) {
    this.#onIdle = onIdle;
  }

  wait(session: string, after: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#add({ session, after, signal, resolve, reject });
    });
  }

  /** Calls the observer for every session that changes. The returned function ends that. */
  observe(observer: SessionObserver): () => void {
    const wasIdle = this.#isIdle;
    this.#observers.add(observer);
    if (wasIdle) this.#onIdle(false);
    return () => {
      if (this.#observers.delete(observer) && this.#isIdle) this.#onIdle(true);
    };
  }

  /** Tells the observers that a session has changed; undefined means that another process has written. */
  tell(session: string | undefined): void {
    for (const observer of this.#observers) observer(session);
  }

  /** Wakes the readers of a session. Call it strictly after the commit. */
  moved(session: string, head: number): void {
    if (this.#observers.size > 0) this.tell(session);
    for (const waiter of this.#waiting.get(session) ?? []) {
      if (waiter.after >= head) continue;
      this.#remove(waiter);
      waiter.resolve();
    }
  }

  removed(session: string): void {
    this.moved(session, Number.POSITIVE_INFINITY);
  }

  close(reason: unknown): void {
    for (const waiters of this.#waiting.values()) this.#reject(waiters, reason);
  }

  sessions(): string[] {
    return [...this.#waiting.keys()];
  }

  #reject(waiters: ReadonlySet<Waiter>, reason: unknown): void {
    for (const waiter of waiters) {
      this.#remove(waiter);
      waiter.reject(reason);
    }
  }

  #add(waiter: Waiter): void {
    this.#listen(waiter);
    const waiters = this.#waiting.get(waiter.session);
    if (waiters) {
      waiters.add(waiter);
      return;
    }
    const wasIdle = this.#isIdle;
    this.#waiting.set(waiter.session, new Set([waiter]));
    if (wasIdle) this.#onIdle(false);
  }

  #remove(waiter: Waiter): void {
    this.#unlisten(waiter);
    const waiters = this.#waiting.get(waiter.session);
    if (!waiters?.delete(waiter) || waiters.size > 0) return;
    this.#waiting.delete(waiter.session);
    if (this.#isIdle) this.#onIdle(true);
  }

  get #isIdle(): boolean {
    return this.#waiting.size === 0 && this.#observers.size === 0;
  }

  /** Adds one listener per signal: a thousand readers may share the signal that ends the server. */
  #listen(waiter: Waiter): void {
    const { signal } = waiter;
    const shared = this.#signals.get(signal);
    if (shared) {
      shared.waiters.add(waiter);
      return;
    }
    const waiters = new Set([waiter]);
    const listener = (): void => this.#reject(waiters, signal.reason);
    signal.addEventListener("abort", listener);
    this.#signals.set(signal, { waiters, listener });
  }

  #unlisten(waiter: Waiter): void {
    const shared = this.#signals.get(waiter.signal);
    if (!shared?.waiters.delete(waiter) || shared.waiters.size > 0) return;
    waiter.signal.removeEventListener("abort", shared.listener);
    this.#signals.delete(waiter.signal);
  }
}

/** Gets the id of a session that was created, appended to or removed; undefined after writes of another process. */
export type SessionObserver = (session: string | undefined) => void;

interface Waiter {
  readonly session: string;
  readonly after: number;
  readonly signal: AbortSignal;
  resolve(): void;
  reject(reason: unknown): void;
}

interface SharedListener {
  readonly waiters: Set<Waiter>;
  readonly listener: () => void;
}
