import { setTimeout as sleep } from "node:timers/promises";
import type { PerMinute } from "../../contract/index.ts";
import type { Desk, DeskAnswer, Use } from "../desk.ts";
import type { RecordWriter } from "../record.ts";
import { Refusal } from "../refusal.ts";

export const MINUTE_MS = 60_000;
/** How long a request waits for its turn. One that would wait longer is refused with the time of the next attempt. */
const PATIENCE_MS = 30_000;
/** How often a waiting request looks whether the other sessions of its workspace use less. */
const LOOK_MS = 1_000;

export interface RateOptions {
  readonly desk: Pick<Desk, "read" | "renew">;
  readonly records: RecordWriter;
  readonly clock?: { now(): number; sleep(ms: number, signal: AbortSignal): Promise<void> };
}

interface Full {
  readonly scope: "session" | "workspace";
  readonly until: number;
}

/** Keeps the session's and the workspace's requests and tokens of any minute below their limits. */
export class RateLimiter {
  readonly #options: Required<RateOptions>;
  #used: Use[] = [];
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: RateOptions) {
    const clock = { now: Date.now, sleep: rest };
    this.#options = { clock, ...options };
  }

  /** Resolves when the limits allow the request, and tells whether it had to wait. Requests pass in their order. */
  admit(id: string, signal: AbortSignal): Promise<boolean> {
    const since = this.#options.clock.now();
    const admitted = this.#last.then(() => this.#wait(id, since, signal));
    this.#last = admitted.catch(() => {});
    return admitted;
  }

  /** Counts the tokens of an answer. They are known at its end only. */
  count(tokens = 0): void {
    this.#note({ requests: 0, tokens });
  }

  async #wait(id: string, since: number, signal: AbortSignal): Promise<boolean> {
    const { records, clock } = this.#options;
    for (let told: number | undefined; ;) {
      if (signal.aborted) throw new Refusal(499, "cancelled", "sluice: the request was broken off.");
      const answer = await this.#read();
      const full = this.#findFull(answer);
      if (full === undefined) {
        this.#note({ requests: 1, tokens: 0 });
        return told !== undefined;
      }
      const { scope, until } = full;
      const isPatient = answer?.rules?.untilReset === true;
      if (!isPatient && until - since > PATIENCE_MS) throw tooMany(full, clock.now());
      // The other sessions of a workspace may move the end of the wait.
      if (told === undefined || until > told)
        records.write({ type: "limited", id, time: clock.now(), until, scope });
      told = Math.max(told ?? 0, until);
      const wait = Math.max(1, until - clock.now());
      await clock.sleep(scope === "workspace" ? Math.min(wait, LOOK_MS) : wait, signal);
    }
  }

  async #read(): Promise<DeskAnswer | undefined> {
    const { desk } = this.#options;
    const known = await desk.read();
    // Other sessions use the workspace's limit, too, and only the engine knows of them.
    return known?.workspace === undefined ? known : desk.renew();
  }

  #findFull(answer: DeskAnswer | undefined): Full | undefined {
    const from = this.#options.clock.now() - MINUTE_MS;
    this.#used = this.#used.filter(({ time }) => time > from);
    const own = freeAt(this.#used, answer?.rules?.perMinute);
    const { perMinute, others = [] } = answer?.workspace ?? {};
    const all = [...this.#used, ...others.filter(({ time }) => time > from)];
    const shared = freeAt(all, perMinute);
    if (shared !== undefined && shared > (own ?? 0)) return { scope: "workspace", until: shared };
    return own === undefined ? undefined : { scope: "session", until: own };
  }

  #note(use: Omit<Use, "time">): void {
    this.#used.push({ time: this.#options.clock.now(), ...use });
  }
}

/** The time from which the limits allow one more request; undefined where they allow it now. */
function freeAt(used: readonly Use[], limits: PerMinute | undefined): number | undefined {
  if (limits === undefined) return undefined;
  const ordered = used.toSorted((one, other) => one.time - other.time);
  const times = (["requests", "tokens"] as const).map((measure) => {
    const limit = limits[measure];
    let left = ordered.reduce((sum, use) => sum + use[measure], 0);
    let free: number | undefined;
    for (const use of ordered) {
      if (limit === undefined || left < limit) break;
      left -= use[measure];
      free = use.time + MINUTE_MS;
    }
    return free ?? 0;
  });
  const latest = Math.max(...times);
  return latest === 0 ? undefined : latest;
}

function tooMany({ scope, until }: Full, now: number): Refusal {
  const seconds = Math.max(1, Math.ceil((until - now) / 1_000));
  const text = `sluice: the limit of this ${scope} for model requests of one minute is reached. Try again in ${seconds} seconds.`;
  return new Refusal(429, "rate_limited", text, seconds);
}

function rest(ms: number, signal: AbortSignal): Promise<void> {
  return sleep(ms, undefined, { signal }).catch(() => {});
}
