import { setTimeout as sleep } from "node:timers/promises";
import { Readable } from "node:stream";
import type { Answer } from "../forward.ts";
import { type Exchange, toBytes } from "./format.ts";
import { compareShapes, type MaskedRequest } from "./mask.ts";

type Lane = Map<string, Exchange[]>;

/** Finds the recordings of requests: by key, in the sub-agent's lane, in their order. */
export class Player {
  readonly #exchanges: Exchange[] = [];
  readonly #lanes = new Map<string, Lane>();
  /** The recorded lanes of the sub-agents that have asked here. Their ids differ from run to run. */
  readonly #bound = new Map<string, string>();
  readonly #played = new Map<string, number>();

  constructor(exchanges: readonly Exchange[]) {
    for (const exchange of exchanges) this.add(exchange);
  }

  add(exchange: Exchange): void {
    this.#exchanges.push(exchange);
    const lane = this.#lanes.get(exchange.lane ?? "") ?? new Map<string, Exchange[]>();
    this.#lanes.set(exchange.lane ?? "", lane);
    lane.set(exchange.key, [...(lane.get(exchange.key) ?? []), exchange]);
  }

  /** The recording of a request; undefined for a miss. A list or a count repeats its last recording. */
  next(
    key: string,
    { agent, repeats }: { agent: string | undefined; repeats: boolean },
  ): Exchange | undefined {
    const lane = this.#laneOf(agent, key);
    const recorded = this.#lanes.get(lane)?.get(key) ?? [];
    const place = `${agent ?? ""}\n${key}`;
    const count = this.#played.get(place) ?? 0;
    const found = recorded[repeats ? Math.min(count, recorded.length - 1) : count];
    if (found !== undefined) this.#played.set(place, count + 1);
    return found;
  }

  /** The count of exchanges with this key in a lane. */
  count(key: string, lane: string | undefined): number {
    return this.#lanes.get(lane ?? "")?.get(key)?.length ?? 0;
  }

  /** The nearest recording to a miss, and the first place that differs, in words. */
  explain({ key, shape }: MaskedRequest, method: string, path: string): string {
    const same = this.#exchanges.filter((exchange) => exchange.key === key);
    if (same.length > 0) {
      const times = same.length === 1 ? "once" : `${same.length} times`;
      return `The same request was recorded ${times}, and is asked once more.`;
    }
    let nearest: { at: number; path: string; count: number } | undefined;
    for (const [at, { request }] of this.#exchanges.entries()) {
      if (request.method !== method || request.path !== path) continue;
      const difference = compareShapes(request.shape, shape) ?? { path: "/", count: 0 };
      if (nearest === undefined || difference.count < nearest.count) nearest = { at, ...difference };
    }
    if (nearest === undefined) {
      if (this.#exchanges.length === 0) return "The cassette is empty.";
      return `It has no recording of ${method} ${path}.`;
    }
    return `The nearest recording is number ${nearest.at + 1}; the first difference is at ${nearest.path}.`;
  }

  /** A new sub-agent takes the first recorded lane that has its request and belongs to no other. */
  #laneOf(agent: string | undefined, key: string): string {
    if (agent === undefined) return "";
    const known = this.#bound.get(agent);
    if (known !== undefined && this.#lanes.get(known)?.has(key)) return known;
    const taken = new Set(this.#bound.values());
    const having = [...this.#lanes].filter(([name, lane]) => name !== "" && lane.has(key));
    const lane = (having.find(([name]) => !taken.has(name)) ?? having[0])?.[0];
    if (lane === undefined) return "";
    if (known === undefined) this.#bound.set(agent, lane);
    return lane;
  }
}

/** A recorded answer. `speed` 0 is at once, 1 as it was, 2 twice as fast. */
export function toAnswer(
  { response, cut }: Exchange,
  { speed, signal }: { speed: number; signal: AbortSignal },
): Answer {
  const began = performance.now();
  async function* play(): AsyncGenerator<Buffer> {
    for (const chunk of response.chunks) {
      const wait = speed === 0 ? 0 : chunk[0] / speed - (performance.now() - began);
      if (wait > 0) await sleep(wait, undefined, { signal });
      const bytes = toBytes(chunk);
      if (bytes.length > 0) yield bytes;
    }
    if (cut === "provider") throw new Error("the recorded answer broke off here");
    // The agent itself broke it off, and is expected to do so again.
    if (cut === "agent") await sleep(LONGEST_WAIT_MS, undefined, { signal });
  }
  return {
    status: response.status,
    headers: response.headers,
    body: Readable.from(play()),
    servedBy: "cassette",
  };
}

const LONGEST_WAIT_MS = 3_600_000;
