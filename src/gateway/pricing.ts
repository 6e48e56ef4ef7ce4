import { readFileSync } from "node:fs";
import type { Usage } from "../contract/index.ts";

/** The cost of a request, and the table that it is from. Without a known price the cost is absent, and not 0. */
export interface Price {
  readonly costUsd?: number;
  readonly table: "own" | "genai-prices" | "unknown" | "cassette";
  readonly version?: string;
}

export interface PricedRequest {
  readonly provider: string | undefined;
  readonly model: string | undefined;
  readonly usage: Usage;
  /** Milliseconds since 1970: prices change. */
  readonly time: number;
}

export type Pricing = (request: PricedRequest) => Price;

/** Dollars for a million tokens of one model. A kind that is left out costs as much as input. */
export interface OwnPrice {
  readonly input: number;
  readonly output: number;
  readonly cache_read?: number;
  readonly cache_write?: number;
  readonly cache_write_1h?: number;
}

type Library = typeof import("@pydantic/genai-prices");

/** The version of the library's data. */
export const PRICES_VERSION = "0.1.8";

/** The library is optional, and loaded when the first request is priced. */
export async function loadPricing(own: Readonly<Record<string, OwnPrice>> = readOwn()): Promise<Pricing> {
  const library = await import("@pydantic/genai-prices").catch(() => undefined);
  return createPricing(own, library);
}

export function createPricing(
  own: Readonly<Record<string, OwnPrice>>,
  library: Pick<Library, "calcPrice"> | undefined,
): Pricing {
  return (request) => {
    const { model } = request;
    if (model === undefined) return { table: "unknown" };
    const entry = Object.hasOwn(own, model) ? own[model] : undefined;
    if (entry !== undefined) return { costUsd: toCost(entry, request.usage), table: "own" };
    const cost = library && calculate(library, { ...request, model });
    if (cost === undefined) return { table: "unknown" };
    return { costUsd: cost, table: "genai-prices", version: PRICES_VERSION };
  };
}

/** Our usage keeps input and cache apart; the library's input is the whole. */
function calculate(
  { calcPrice }: Pick<Library, "calcPrice">,
  { provider, model, usage, time }: PricedRequest & { model: string },
): number | undefined {
  const { cache_read_tokens: read = 0, cache_write_tokens: write = 0, cache_write_1h_tokens: hour } = usage;
  const counts = {
    input_tokens: (usage.input_tokens ?? 0) + read + write,
    output_tokens: usage.output_tokens ?? 0,
    cache_read_tokens: read,
    cache_write_tokens: write,
    ...(hour === undefined ? {} : { cache_write_1h_tokens: Math.min(hour, write) }),
  };
  try {
    const options = {
      timestamp: new Date(time),
      ...(provider === undefined ? {} : { providerId: PRICED_AS[provider] ?? provider }),
    };
    const price = calcPrice(counts, model, options)?.total_price;
    return price === undefined || !Number.isFinite(price) || price < 0 ? undefined : price;
  } catch {
    return undefined;
  }
}

/** Our names of providers that the library has by another one. */
const PRICED_AS: Readonly<Record<string, string>> = { foundry: "azure", bedrock: "aws", vertex: "google" };

const MILLION = 1_000_000;

function toCost(price: OwnPrice, usage: Usage): number {
  const { cache_read = price.input, cache_write = price.input } = price;
  const { cache_write_1h = cache_write } = price;
  const write = usage.cache_write_tokens ?? 0;
  const hour = Math.min(usage.cache_write_1h_tokens ?? 0, write);
  const parts = [
    (usage.input_tokens ?? 0) * price.input,
    (usage.output_tokens ?? 0) * price.output,
    (usage.cache_read_tokens ?? 0) * cache_read,
    (write - hour) * cache_write,
    hour * cache_write_1h,
  ];
  return parts.reduce((sum, part) => sum + part, 0) / MILLION;
}

function isPrice(price: OwnPrice | null): boolean {
  return price !== null && price.input >= 0 && price.output >= 0;
}

/** `SLUICE_PRICES` names a JSON file of own prices by model. A file that cannot be read counts as absent. */
export function readOwn(): Record<string, OwnPrice> {
  const file = process.env["SLUICE_PRICES"];
  if (file === undefined || file === "") return {};
  try {
    const table = JSON.parse(readFileSync(file, "utf8")) as Record<string, OwnPrice>;
    return Object.fromEntries(Object.entries(table).filter(([, price]) => isPrice(price)));
  } catch {
    return {};
  }
}
