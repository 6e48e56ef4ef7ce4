import { setTimeout as sleep } from "node:timers/promises";
import { type Desk, type DeskBudget, type GatewayRules, toSentModel } from "../desk.ts";
import type { Pricing } from "../pricing.ts";
import type { GatewayRecord, RecordWriter } from "../record.ts";
import { Refusal } from "../refusal.ts";
import { add, type Amounts, countTokens, type Hit, NOTHING, ONE_REQUEST, reachedBy } from "./amounts.ts";
import { type Asked, Entry, type Used } from "./entry.ts";

/** How often a held request looks for a decision. */
const LOOK_MS = 200;

export interface LedgerOptions {
  readonly desk: Pick<Desk, "read" | "renew" | "isFresh">;
  readonly records: RecordWriter;
  /** Loaded with the first budget in dollars. */
  readonly loadPricing: (own: DeskBudget["prices"]) => Promise<Pricing>;
}

/**
 * Holds requests that a budget does not allow. The engine counts by the records; what it has not read yet is counted
 * here, so the budget holds while no engine answers. Near the limit, one request passes at a time. While one is held,
 * none passes.
 */
export class Ledger {
  readonly #options: LedgerOptions;
  readonly #open = new Set<Entry>();
  /** Amounts that the engine may not have counted yet, each with the end of its record. */
  #fresh: { readonly end: number; readonly amounts: Amounts }[] = [];
  #pricing: { readonly key: string; readonly pricing: Pricing } | undefined;
  /** The hold that is in the records. */
  #told: string | undefined;
  /** The requests and streams that wait for a decision. */
  readonly #held = new Set<object>();
  /** Wakes the requests that wait for the end of another one. */
  readonly #waiting = new Set<() => void>();
  #isAsked = false;
  #hasEarlier = false;
  #rules: GatewayRules | undefined;

  constructor(options: LedgerOptions) {
    this.#options = options;
  }

  /** Resolves when the budget allows the request. */
  async admit(exchange: Asked, signal: AbortSignal): Promise<Entry> {
    const entry = new Entry(this, exchange);
    // The answer from before the agent's start may know no budget.
    if (!this.#isAsked) await this.#options.desk.renew();
    this.#isAsked = true;
    try {
      for (let budget = await this.#readNew(); budget !== undefined; budget = await this.#readNew()) {
        const hit = this.#findHit(budget, entry);
        if (hit === undefined) this.#held.delete(entry);
        if (hit !== undefined) await this.#hold(hit, { budget, by: entry, signal });
        else if (isOpen(budget)) await rest(signal);
        else if (this.#held.size > 0 || this.#isClose(budget, entry)) await this.#oneEnded(signal);
        else break;
        if (signal.aborted) throw new Refusal(499, "cancelled", "sluice: the request was broken off.");
      }
      // Nothing waits between the check and this line, so no two requests take the same place.
      this.#told = undefined;
      this.#open.add(entry);
      return entry;
    } finally {
      this.#held.delete(entry);
    }
  }

  /** Resolves when the budget allows the rest of a stream. */
  async goOn(signal: AbortSignal): Promise<void> {
    const by = {};
    try {
      for (let budget = await this.#read(); budget !== undefined; budget = await this.#read()) {
        const hit = this.#findOverdrawn(budget);
        if (hit === undefined || signal.aborted) return;
        await this.#hold(hit, { budget, by, signal });
      }
    } finally {
      this.#held.delete(by);
    }
  }

  /** Resolves when nobody has to decide any more. For a request that was allowed, and has waited since then. */
  async goOnUnsent(signal: AbortSignal): Promise<void> {
    for (let budget = await this.#readNew(); budget !== undefined; budget = await this.#readNew()) {
      await this.goOn(signal);
      if (signal.aborted || (this.#held.size === 0 && !isOpen(budget))) return;
      await rest(signal);
    }
  }

  /** Counts a record of this request: its start, or its end. */
  count(end: number, amounts: Amounts): void {
    this.#fresh.push({ end, amounts });
  }

  close(entry: Entry): void {
    this.#open.delete(entry);
    for (const wake of this.#waiting) wake();
  }

  toAmounts(provider: string, { usage, models }: Used): Amounts {
    const time = Date.now();
    const pricing = this.#pricing?.pricing;
    const cost = models
      .map((model) => pricing?.({ provider, model, usage, time }).costUsd)
      .find((usd) => usd !== undefined);
    return { usd: cost ?? 0, tokens: countTokens(usage), requests: 0 };
  }

  sentModel(model: string | undefined): string | undefined {
    return toSentModel(this.#rules, model);
  }

  /** The budget for a request that is not sent yet. It may have been used up elsewhere, lowered or raised by now. */
  async #readNew(): Promise<DeskBudget | undefined> {
    const { desk } = this.#options;
    const isFresh = desk.isFresh;
    const budget = await this.#read();
    if (budget === undefined || (isFresh && budget.workspace.length === 0 && !isOpen(budget))) return budget;
    await desk.renew();
    return this.#read();
  }

  async #read(): Promise<DeskBudget | undefined> {
    const { desk } = this.#options;
    const answer = await desk.read();
    this.#rules = answer?.rules;
    const budget = answer?.budget;
    if (budget !== undefined) {
      await this.#loadPrices(budget);
      this.#countEarlier(budget);
    }
    return budget;
  }

  async #loadPrices({ ceilings, prices }: DeskBudget): Promise<void> {
    const key = JSON.stringify(prices);
    if (ceilings.usd === undefined || this.#pricing?.key === key) return;
    this.#pricing = { key, pricing: await this.#options.loadPricing(prices) };
  }

  /** Counts the requests of an earlier gateway that the engine has not read. It was killed, and its own sum with it. */
  #countEarlier({ at }: DeskBudget): void {
    if (this.#hasEarlier) return;
    this.#hasEarlier = true;
    for (const { record, end } of this.#options.records.earlier(at)) {
      const amounts = this.#amountsOf(record);
      if (amounts !== undefined) this.count(end, amounts);
    }
  }

  #amountsOf(record: GatewayRecord): Amounts | undefined {
    if (record.type === "started") return ONE_REQUEST;
    if (record.type !== "ended" || record.usage === undefined) return undefined;
    const { provider, model, asked, usage, served } = record;
    return this.toAmounts(provider, { usage, models: served === "cassette" ? [] : [model, asked] });
  }

  #findHit(budget: DeskBudget, { exchange }: Entry): Hit | undefined {
    const settled = this.#settled(budget);
    const limit = budget.ceilings.usd;
    if (limit !== undefined && !budget.takesUnpriced && !this.#isPriced(exchange))
      return { measure: "usd", limit, spent: settled.usd, unpriced: true };
    return reachedBy(add(settled, this.#sumOpen("unstarted")), budget.ceilings);
  }

  /** The limit that the open answers use up so far. Their requests were counted when they began. */
  #findOverdrawn(budget: DeskBudget): Hit | undefined {
    const sum = add(this.#settled(budget), this.#sumOpen("soFar"));
    return reachedBy(sum, { ...budget.ceilings, requests: undefined });
  }

  /** A made-up name of a model must not be free. */
  #isPriced({ facts: { model }, call }: Asked): boolean {
    const usage = { input_tokens: 1, output_tokens: 1 };
    const sent = this.sentModel(model);
    const request = { provider: call.route.provider, model: sent, usage, time: Date.now() };
    return this.#pricing?.pricing(request).costUsd !== undefined;
  }

  /** Whether the open requests may use up the budget. */
  #isClose(budget: DeskBudget, entry: Entry): boolean {
    if (this.#open.size === 0) return false;
    const sum = [this.#settled(budget), this.#sumOpen("guess"), entry.guess].reduce(add);
    return reachedBy(sum, { ...budget.ceilings, requests: undefined }) !== undefined;
  }

  #settled({ spent, at }: DeskBudget): Amounts {
    this.#fresh = this.#fresh.filter(({ end }) => end > at);
    return this.#fresh.map(({ amounts }) => amounts).reduce(add, spent);
  }

  #sumOpen(how: "guess" | "soFar" | "unstarted"): Amounts {
    return [...this.#open].map((entry) => entry[how]).reduce(add, NOTHING);
  }

  /** Tells the hold once, and waits a moment for the decision. */
  async #hold(
    hit: Hit,
    { budget, by, signal }: { budget: DeskBudget; by: object; signal: AbortSignal },
  ): Promise<void> {
    const { desk, records } = this.#options;
    this.#held.add(by);
    const known = await desk.renew();
    if (known?.budget?.isOver) throw overdrawn();
    // The newest answer may allow more already.
    const isStale = (known?.budget?.ceilings[hit.measure] ?? Number.POSITIVE_INFINITY) > hit.limit;
    const name = JSON.stringify([hit.measure, hit.limit, hit.unpriced]);
    if (!isStale && this.#told !== name) {
      this.#told = name;
      const scope = budget.workspace.includes(hit.measure) ? "workspace" : "session";
      records.write({ type: "held", time: Date.now(), scope, ...hit });
    }
    await rest(signal);
  }

  async #oneEnded(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#waiting.add(resolve);
      const look = (): void => {
        // A held stream may stay open for days, and nothing ends meanwhile.
        this.#waiting.delete(resolve);
        resolve();
      };
      rest(signal).then(look, look);
    });
  }
}

/** Whether somebody has to decide, or the turn is being ended: the limits do not matter then. */
function isOpen(budget: DeskBudget): boolean {
  return budget.isOpen === true || budget.isOver === true;
}

async function rest(signal: AbortSignal): Promise<void> {
  await sleep(LOOK_MS, undefined, { signal }).catch(() => {});
}

function overdrawn(): Refusal {
  return new Refusal(403, "budget", "sluice: the budget of this session is used up, and the turn ends.");
}
