import type { SpoolLine } from "../contract/index.ts";
import { own } from "../contract/own-keys.ts";
import type { HarnessFact } from "./port.ts";
import { unparsedFact } from "./line.ts";

/** The decoder state that all adapters share. Plain JSON, never changed in place. */
export interface Transcript<Ask = string> {
  readonly prefix: string;
  /** How many ids have been given out. */
  readonly count: number;
  /** Texts and thoughts that stream, by native id. */
  readonly texts: Readonly<Record<string, OpenText>>;
  /** Tool calls of the running turn, by native id. */
  readonly calls: Readonly<Record<string, OpenCall>>;
  /** Model requests that run, by native id. */
  readonly requests: Readonly<Record<string, OpenRequest>>;
  /** Open asks: our id, and the adapter's data for the answer. */
  readonly asks: Readonly<Record<string, Ask>>;
  /** A text whose stream was cut. The CLI will repeat it. */
  readonly torn?: TornText;
}

export interface OpenText {
  readonly item: string;
  readonly kind: TextKind;
  /** All of it so far. */
  readonly text: string;
  /** The text before the cut, which is expected again. */
  readonly replay?: string;
  /** The sub-agent's call under which it happens. */
  readonly parent?: string;
}

export type TextKind = "text" | "reasoning";

export interface OpenCall {
  readonly item: string;
  readonly name: string;
  /** Whether its arguments still stream. */
  readonly writing?: boolean;
  /** The item of its result, once it runs. */
  readonly result?: string;
  readonly parent?: string;
}

export interface OpenRequest {
  readonly id: string;
  readonly model?: string;
  readonly parent?: string;
}

export interface TornText {
  readonly native: string;
  readonly text: OpenText;
}

export function emptyTranscript<Ask = string>(idPrefix: string): Transcript<Ask> {
  return { prefix: idPrefix, count: 0, texts: {}, calls: {}, requests: {}, asks: {} };
}

/** Kinds of ids with a prefix of their own; an item has none. */
export type IdKind = "perm" | "ques" | "treq" | "mreq";

/** Unique among the session's processes by the prefix that the engine gave. */
export function toId(prefix: string, count: number, kind?: IdKind): string {
  return `${kind === undefined ? prefix : `${kind}_${prefix.replace(/^itm_/, "")}`}${count}`;
}

export { own };

export function without<T>(map: Readonly<Record<string, T>>, key: string): Record<string, T> {
  const { [key]: _, ...rest } = map;
  return rest;
}

/** The agent that a fact comes from: a sub-agent by the native id of its call, else the main agent. */
export interface Origin {
  readonly parent?: string | undefined;
  /** The item of that call, where the call has ended already. */
  readonly parentItem?: string | undefined;
}

/** Collects facts in their order, gives out ids, and holds the transcript. */
export class Pen<Ask> {
  readonly facts: HarnessFact[] = [];
  #transcript: Transcript<Ask>;

  constructor(transcript: Transcript<Ask>) {
    this.#transcript = transcript;
  }

  get transcript(): Transcript<Ask> {
    return this.#transcript;
  }

  /** Any fact, with its parent where it comes from a sub-agent. */
  add(fact: HarnessFact, origin: Origin = {}): void {
    this.put(fact, this.itemOf(origin));
  }

  unparsed(line: SpoolLine, error: string): void {
    this.facts.push(unparsedFact(line, error));
  }

  protected put(fact: HarnessFact, parent: string | undefined): void {
    this.facts.push(parent === undefined ? fact : { ...fact, parent_id: parent });
  }

  protected putDelta(item: string, native: string, delta: string, parent: string | undefined): void {
    this.put({ type: "item.delta", data: { item_id: item, native_item_id: native, delta } }, parent);
  }

  protected itemOf({ parent, parentItem }: Origin): string | undefined {
    return (parent === undefined ? undefined : own(this.#transcript.calls, parent)?.item) ?? parentItem;
  }

  protected nextId(kind?: IdKind): string {
    const { prefix, count } = this.#transcript;
    this.remember({ count: count + 1 });
    return toId(prefix, count + 1, kind);
  }

  protected remember(change: Partial<Transcript<Ask>>): void {
    this.#transcript = { ...this.#transcript, ...change };
  }

  protected forgetTorn(): void {
    const { torn: _, ...rest } = this.#transcript;
    this.#transcript = rest;
  }

  /** Empties the transcript. The count of ids stays. */
  protected forgetAll(): void {
    const { prefix, count } = this.#transcript;
    this.#transcript = { ...emptyTranscript<Ask>(prefix), count };
  }
}
