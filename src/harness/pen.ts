import type { SpoolLine } from "../contract/index.ts";
import type { HarnessFact } from "./port.ts";
import { emptyTranscript, type IdKind, own, toId, type Transcript } from "./transcript.ts";
import { unparsedFact } from "./unparsed.ts";

/** Where a thing stands: the native id of the sub-agent's call under which it happened. */
export interface Place {
  readonly parent?: string | undefined;
  /** The item of that call, where the call itself was answered long ago. */
  readonly parentItem?: string | undefined;
}

/** What a scribe writes with: facts in their order, ids, and the transcript that goes on from line to line. */
export class Pen<Ask> {
  readonly facts: HarnessFact[] = [];
  #transcript: Transcript<Ask>;

  constructor(transcript: Transcript<Ask>) {
    this.#transcript = transcript;
  }

  get transcript(): Transcript<Ask> {
    return this.#transcript;
  }

  /** Any fact, under the sub-agent's call where there is one. */
  add(fact: HarnessFact, place: Place = {}): void {
    this.put(fact, this.itemOf(place));
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

  protected itemOf({ parent, parentItem }: Place): string | undefined {
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

  /** Only the ids go on. */
  protected forgetAll(): void {
    const { prefix, count } = this.#transcript;
    this.#transcript = { ...emptyTranscript<Ask>(prefix), count };
  }
}
