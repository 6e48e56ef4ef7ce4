import type { EventDraft } from "../contract/index.ts";

/** The model requests of one model, since the start of the engine. */
export interface ModelCounts {
  readonly provider: string;
  readonly model: string;
  /** By result: `ok`, `error`, `cassette`. */
  readonly requests: Readonly<Record<string, number>>;
  /** By kind. Input is without cached tokens. */
  readonly tokens: Readonly<Record<string, number>>;
  readonly costUsd: number;
  readonly seconds: number;
  /** The sum and the number of the times to the first byte. */
  readonly firstSeconds: number;
  readonly firsts: number;
}

/** An agent chooses the names of models, and a label for each would grow without a limit. */
const MOST_MODELS = 100;
const OTHER = "other";

/** Counts model requests by their model. */
export class ModelCounters {
  readonly #models = new Map<string, Counted>();

  add(events: readonly EventDraft[]): void {
    for (const event of events) if (event.type === "model.ended") this.#count(event.data);
  }

  get all(): ModelCounts[] {
    return [...this.#models.values()];
  }

  #count(data: Extract<EventDraft, { type: "model.ended" }>["data"]): void {
    const counted = this.#of(data.provider ?? "unknown", data.model ?? "unknown");
    const { usage = {} } = data;
    const result = data.error === undefined ? (data.served_by === "cassette" ? "cassette" : "ok") : "error";
    raise(counted.requests, result, 1);
    for (const [kind, name] of KINDS) raise(counted.tokens, kind, usage[name] ?? 0);
    counted.costUsd += usage.cost_usd ?? 0;
    counted.seconds += (data.duration_ms ?? 0) / 1_000;
    if (data.ttft_ms === undefined) return;
    counted.firstSeconds += data.ttft_ms / 1_000;
    counted.firsts += 1;
  }

  #of(provider: string, model: string): Counted {
    const name = `${provider}\n${model}`;
    const known = this.#models.get(name);
    if (known !== undefined) return known;
    if (this.#models.size >= MOST_MODELS && model !== OTHER) return this.#of(OTHER, OTHER);
    const made: Counted = {
      provider,
      model,
      requests: {},
      tokens: {},
      costUsd: 0,
      seconds: 0,
      firstSeconds: 0,
      firsts: 0,
    };
    this.#models.set(name, made);
    return made;
  }
}

type Counted = { -readonly [K in keyof ModelCounts]: ModelCounts[K] } & {
  requests: Record<string, number>;
  tokens: Record<string, number>;
};

const KINDS = [
  ["input", "input_tokens"],
  ["output", "output_tokens"],
  ["cache_read", "cache_read_tokens"],
  ["cache_write", "cache_write_tokens"],
  ["reasoning", "reasoning_tokens"],
] as const;

function raise(counts: Record<string, number>, name: string, by: number): void {
  if (by > 0) counts[name] = (counts[name] ?? 0) + by;
}
