import type { Decoded } from "../port.ts";
import { Scribe } from "../scribe.ts";
import type { AcpDialect } from "./dialect.ts";
import type { AcpAsk, AcpState } from "./state.ts";

/** One line being read: the notes that it changes, the facts that it means, the lines that it is answered with. */
export class Hand {
  readonly dialect: AcpDialect;
  readonly replies: string[] = [];
  #state: AcpState;
  #scribe: Scribe<AcpAsk>;

  constructor(dialect: AcpDialect, state: AcpState) {
    this.dialect = dialect;
    this.#state = state;
    this.#scribe = new Scribe(state.transcript);
  }

  get state(): AcpState {
    return this.#state;
  }

  get scribe(): Scribe<AcpAsk> {
    return this.#scribe;
  }

  /** Notes something down; undefined forgets it. */
  note(change: { readonly [K in keyof AcpState]?: AcpState[K] | undefined }): void {
    const next: Record<string, unknown> = { ...this.#state, ...change };
    for (const key of Object.keys(change)) if (next[key] === undefined) delete next[key];
    this.#state = next as unknown as AcpState;
  }

  /** Keeps an item as a parent although its call has been closed: a sub-agent may outlive the call that started it. */
  anchor(native: string, item: { readonly item: string; readonly name: string }): void {
    const { transcript, facts } = this.#scribe;
    this.#scribe = new Scribe({ ...transcript, calls: { ...transcript.calls, [native]: item } });
    this.#scribe.facts.push(...facts);
  }

  done(): Decoded<AcpState> {
    const { facts, transcript } = this.#scribe;
    const state = { ...this.#state, transcript };
    return this.replies.length === 0 ? { state, facts } : { state, facts, replies: this.replies };
  }
}
