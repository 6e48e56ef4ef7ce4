import type { Usage } from "../../contract/index.ts";
import type { Call } from "../paths.ts";
import type { AnswerFacts, RequestFacts } from "../wire.ts";
import { type Amounts, guessTokens, NOTHING, ONE_REQUEST, withSpoken } from "./amounts.ts";

/** The request, as the ledger uses it. */
export interface Asked {
  readonly call: Call;
  readonly facts: RequestFacts;
  readonly body: Buffer;
}

/** The tokens of a request, and the models by which they are priced: the answer's first, else the one asked for. */
export interface Used {
  readonly usage: Usage;
  readonly models: readonly (string | undefined)[];
}

/** The ledger, as one of its entries uses it. */
interface Accounts {
  goOn(signal: AbortSignal): Promise<void>;
  goOnUnsent(signal: AbortSignal): Promise<void>;
  count(end: number, amounts: Amounts): void;
  close(entry: Entry): void;
  toAmounts(provider: string, used: Used): Amounts;
  sentModel(model: string | undefined): string | undefined;
}

/** A stream is compared with the budget after this many characters. */
const CHECKED_AFTER = 400;

/** One request between its admission and its end. */
export class Entry {
  readonly exchange: Asked;
  readonly #ledger: Accounts;
  #usage: Usage = {};
  #checked = 0;
  #isStarted = false;

  constructor(ledger: Accounts, exchange: Asked) {
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

  /** The request itself, until the record of its start counts it. */
  get unstarted(): Amounts {
    return this.#isStarted ? NOTHING : ONE_REQUEST;
  }

  /** Takes the position behind the record of its start. */
  started(end: number): void {
    this.#isStarted = true;
    this.#ledger.count(end, ONE_REQUEST);
  }

  /** Waits where the budget was used up while the request waited for something else. */
  unsent(signal: AbortSignal): Promise<void> {
    return this.#ledger.goOnUnsent(signal);
  }

  /** Waits where the answer so far uses up the budget. */
  async passed(facts: AnswerFacts, spoken: number, signal: AbortSignal): Promise<void> {
    if (spoken - this.#checked < CHECKED_AFTER) return;
    this.#checked = spoken;
    this.#usage = withSpoken(facts.usage, spoken);
    await this.#ledger.goOn(signal);
  }

  /** Takes the position behind the record of its end. */
  ended(end?: number, used?: Used): void {
    const { provider } = this.exchange.call.route;
    if (end !== undefined && used) this.#ledger.count(end, this.#ledger.toAmounts(provider, used));
    this.#ledger.close(this);
  }

  #toAmounts(usage: Usage): Amounts {
    const models = [this.#ledger.sentModel(this.exchange.facts.model)];
    return this.#ledger.toAmounts(this.exchange.call.route.provider, { usage, models });
  }
}
