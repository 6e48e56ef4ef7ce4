import { setTimeout as sleep } from "node:timers/promises";
import type { BudgetMeasure, Usage } from "../contract/index.ts";
import { type Desk, type DeskBudget, type GatewayRules, toSentModel } from "./desk.ts";
import type { Call } from "./paths.ts";
import type { Pricing } from "./pricing.ts";
import type { RecordWriter } from "./record.ts";
import { Refusal } from "./refusal.ts";
import type { AnswerFacts, RequestFacts } from "./wire.ts";

type Measure = Exclude<BudgetMeasure, "minutes">;
type Amounts = Readonly<Record<Measure, number>>;

/** The request, as the ledger uses it. */
interface Asked {
  readonly call: Call;
  readonly facts: RequestFacts;
  readonly body: Buffer;
}

interface Hit {
  readonly measure: Measure;
  readonly limit: number;
  readonly spent: number;
  /** The price of the model is not known. */
  readonly unpriced?: true;
}

const NOTHING: Amounts = { usd: 0, tokens: 0, requests: 0 };
const MEASURES = ["usd", "tokens", "requests"] as const;
/** How often a held request looks for a decision. */
const LOOK_MS = 200;
const CHARACTERS_OF_TOKEN = 4;
/** The most tokens that the size of a request is taken for: pictures are long, and cheap. */
const MOST_GUESSED = 200_000;
/** A stream is compared with the budget after this many characters. */
const CHECKED_AFTER = 400;

export interface LedgerOptions {
  readonly desk: Pick<Desk, "read" | "renew">;
  readonly records: RecordWriter;
  /** Loaded with the first budget in dollars. */
  readonly loadPricing: (own: DeskBudget["prices"]) => Promise<Pricing>;
}

/**
 * Holds requests that a budget does not allow. The engine counts by the records; what it has not read yet is counted
 * here, so the budget holds while no engine answers. Near the limit, one request passes at a time.
 */
export class Ledger {
  readonly #options: LedgerOptions;
  readonly #open = new Set<Entry>();
  /** Amounts that the engine may not have counted yet, each with the end of its record. */
  #fresh: { readonly end: number; readonly amounts: Amounts }[] = [];
  #pricing: { readonly key: string; readonly pricing: Pricing } | undefined;
  /** The hold that is in the records. */
  #told: string | undefined;
  /** Wakes the requests that wait for the end of another one. */
  readonly #waiting = new Set<() => void>();
  #isAsked = false;
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
    for (let budget = await this.#read(); budget !== undefined; budget = await this.#read()) {
      await this.#loadPrices(budget);
      const hit = this.#findHit(budget, entry);
      if (hit !== undefined) await this.#hold(hit, budget, signal);
      else if (!this.#isClose(budget, entry)) break;
      else await this.#oneEnded(signal);
      if (signal.aborted) throw new Refusal(499, "cancelled", "sluice: the request was broken off.");
    }
    this.#told = undefined;
    this.#open.add(entry);
    return entry;
  }

  /** Resolves when the budget allows the rest of a stream. */
  async goOn(signal: AbortSignal): Promise<void> {
    for (let budget = await this.#read(); budget !== undefined; budget = await this.#read()) {
      await this.#loadPrices(budget);
      const sum = add(this.#settled(budget), this.#sumOpen("soFar"));
      const hit = reachedBy(sum, budget.ceilings);
      if (hit === undefined || hit.measure === "requests" || signal.aborted) return;
      await this.#hold(hit, budget, signal);
    }
  }

  /** Counts a record of this request: its start, or its end. */
  count(amounts: Amounts): void {
    this.#fresh.push({ end: this.#options.records.position(), amounts });
  }

  close(entry: Entry): void {
    this.#open.delete(entry);
    for (const wake of this.#waiting) wake();
  }

  toAmounts(exchange: Asked, usage: Usage, model: string | undefined): Amounts {
    const { input_tokens = 0, output_tokens = 0, cache_write_tokens = 0 } = usage;
    const provider = exchange.call.route.provider;
    const cost = this.#pricing?.pricing({ provider, model, usage, time: Date.now() }).costUsd;
    return { usd: cost ?? 0, tokens: input_tokens + output_tokens + cache_write_tokens, requests: 0 };
  }

  async #read(): Promise<DeskBudget | undefined> {
    const answer = await this.#options.desk.read();
    this.#rules = answer?.rules;
    return answer?.budget;
  }

  async #loadPrices({ ceilings, prices }: DeskBudget): Promise<void> {
    const key = JSON.stringify(prices);
    if (ceilings.usd === undefined || this.#pricing?.key === key) return;
    this.#pricing = { key, pricing: await this.#options.loadPricing(prices) };
  }

  #findHit(budget: DeskBudget, { exchange }: Entry): Hit | undefined {
    const settled = this.#settled(budget);
    const limit = budget.ceilings.usd;
    if (limit !== undefined && !budget.takesUnpriced && !this.#isPriced(exchange))
      return { measure: "usd", limit, spent: settled.usd, unpriced: true };
    return reachedBy(settled, budget.ceilings);
  }

  /** A made-up name of a model must not be free. */
  #isPriced({ facts: { model }, call }: Asked): boolean {
    const usage = { input_tokens: 1, output_tokens: 1 };
    const sent = toSentModel(this.#rules, model);
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

  #sumOpen(how: "guess" | "soFar"): Amounts {
    return [...this.#open].map((entry) => entry[how]).reduce(add, NOTHING);
  }

  /** Tells the hold once, and waits a moment for the decision. */
  async #hold(hit: Hit, budget: DeskBudget, signal: AbortSignal): Promise<void> {
    const { desk, records } = this.#options;
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
    await sleep(LOOK_MS, undefined, { signal }).catch(() => {});
  }

  async #oneEnded(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#waiting.add(resolve);
      const look = (): void => {
        // A held stream may stay open for days, and nothing ends meanwhile.
        this.#waiting.delete(resolve);
        resolve();
      };
      sleep(LOOK_MS, undefined, { signal }).then(look, look);
    });
  }
}

/** One request between its admission and its end. */
export class Entry {
  readonly exchange: Asked;
  readonly #ledger: Ledger;
  #usage: Usage = {};
  #checked = 0;

  constructor(ledger: Ledger, exchange: Asked) {
    this.#ledger = ledger;
    this.exchange = exchange;
  }

  /** A low estimate of its cost, by its size and by its answer so far. */
  get guess(): Amounts {
    const input_tokens = guessTokens(this.exchange.body.length);
    return this.#toAmounts({ input_tokens, ...this.#usage });
  }

  /** Its cost so far, as far as the answer tells. */
  get soFar(): Amounts {
    return this.#toAmounts(this.#usage);
  }

  started(): void {
    this.#ledger.count({ ...NOTHING, requests: 1 });
  }

  /** Waits where the answer so far uses up the budget. */
  async passed(facts: AnswerFacts, spoken: number, signal: AbortSignal): Promise<void> {
    if (spoken - this.#checked < CHECKED_AFTER) return;
    this.#checked = spoken;
    this.#usage = withSpoken(facts.usage, spoken);
    await this.#ledger.goOn(signal);
  }

  ended(usage: Usage | undefined, model: string | undefined): void {
    if (usage) this.#ledger.count(this.#ledger.toAmounts(this.exchange, usage, model));
    this.#ledger.close(this);
  }

  #toAmounts(usage: Usage): Amounts {
    return this.#ledger.toAmounts(this.exchange, usage, this.exchange.facts.model);
  }
}

/** The usage of an answer that broke off: the provider tells its output at the end only. */
export function estimateUsage(facts: AnswerFacts, body: Buffer, spoken: number): Usage | undefined {
  if (spoken === 0) return facts.usage;
  return { input_tokens: guessTokens(body.length), ...withSpoken(facts.usage, spoken) };
}

function withSpoken(usage: Usage = {}, spoken: number): Usage {
  const output = Math.ceil(spoken / CHARACTERS_OF_TOKEN);
  return { ...usage, output_tokens: Math.max(usage.output_tokens ?? 0, output) };
}

function guessTokens(bytes: number): number {
  return Math.min(MOST_GUESSED, Math.ceil(bytes / CHARACTERS_OF_TOKEN));
}

function reachedBy(
  sum: Amounts,
  ceilings: { readonly [M in Measure]?: number | undefined },
): Hit | undefined {
  for (const measure of MEASURES) {
    const limit = ceilings[measure];
    if (limit !== undefined && sum[measure] >= limit) return { measure, limit, spent: sum[measure] };
  }
  return undefined;
}

function add(one: Amounts, other: Amounts): Amounts {
  return {
    usd: one.usd + other.usd,
    tokens: one.tokens + other.tokens,
    requests: one.requests + other.requests,
  };
}

function overdrawn(): Refusal {
  return new Refusal(403, "budget", "sluice: the budget of this session is used up, and the turn ends.");
}
