import type { Decoded } from "../port.ts";
import type { Place } from "../pen.ts";
import { Scribe } from "../scribe.ts";
import { own } from "../transcript.ts";
import type { Ask, Message, OpencodeState, Turn, Work } from "./state.ts";

/** One line being read: the state as it becomes, and what is written down of it. */
export class Page {
  readonly scribe: Scribe<Ask>;
  /** Requests that must be made now. */
  readonly replies: string[] = [];
  #state: OpencodeState;

  constructor(state: OpencodeState) {
    this.#state = state;
    this.scribe = new Scribe(state.transcript);
  }

  get state(): OpencodeState {
    return this.#state;
  }

  get work(): Work {
    return this.#state.work;
  }

  set(change: Partial<OpencodeState>): void {
    this.#state = { ...this.#state, ...change };
  }

  forget(key: "turn" | "run"): void {
    const { [key]: _, ...state } = this.#state;
    this.#state = state;
  }

  setWork(change: Partial<Work>): void {
    this.set({ work: { ...this.#state.work, ...change } });
  }

  setTurn(change: Partial<Turn>): undefined {
    if (this.#state.turn) this.set({ turn: { ...this.#state.turn, ...change } });
  }

  setMessage(id: string, message: Message): void {
    this.setWork({ messages: { ...this.work.messages, [id]: message } });
  }

  /** Whether a session is the one that the turns are about. */
  isMain(session: unknown): boolean {
    return session !== undefined && session === this.#state.session;
  }

  /** Where the words of a session stand; undefined for one that is not ours. */
  placeOf(session: unknown): Place | undefined {
    if (this.isMain(session)) return {};
    const parent = typeof session === "string" ? own(this.work.children, session) : undefined;
    return parent === undefined ? undefined : { parent };
  }

  get decoded(): Decoded<OpencodeState> {
    const { facts, transcript } = this.scribe;
    const state = transcript === this.#state.transcript ? this.#state : { ...this.#state, transcript };
    return { state, facts, ...(this.replies.length === 0 ? {} : { replies: this.replies }) };
  }
}
