import { Transform, type TransformCallback } from "node:stream";
import type { SecretForms, State } from "./secret-forms.ts";

interface Match {
  readonly start: number;
  readonly end: number;
  readonly to: Buffer;
}

/** Replaces every form of the secrets in a stream, even across chunks. Holds back only bytes that may begin a form. */
export class Scrubber {
  readonly #forms: SecretForms;
  /** Bytes that are held back. The first `#given` of them were released early. */
  #held: Buffer = Buffer.alloc(0);
  #given = 0;
  /** The states of unfinished matches, each with the position where its match begins. */
  #open = new Map<State, number>();
  #matches: Match[] = [];

  constructor(forms: SecretForms) {
    this.#forms = forms;
  }

  get holdsBack(): boolean {
    return this.#held.length > this.#given;
  }

  write(chunk: Buffer): Buffer {
    const from = this.#held.length;
    const data = from === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    for (let at = from; at < data.length; at++) {
      if (this.#open.size === 0) at = this.#findBeginning(data, at);
      if (at < data.length) this.#step(data[at] as number, at);
    }
    const safe = this.#settle(data.length);
    const given = this.#emit(data, safe);
    if (this.#held.length > this.#forms.longest) throw new Error("a form of a secret has no end");
    return given;
  }

  end(): Buffer {
    this.#open.clear();
    return this.#emit(this.#held, this.#held.length);
  }

  /**
   * Releases the held-back bytes to a waiting reader. If they turn out to be the beginning of a secret, its rest is
   * never released.
   */
  release(): Buffer {
    const given = this.#matches.length > 0 ? Buffer.alloc(0) : this.#held.subarray(this.#given);
    this.#given += given.length;
    return given;
  }

  #findBeginning(data: Buffer, from: number): number {
    const { pairs, firsts } = this.#forms;
    const last = data.length - 1;
    for (let at = from; at < last; at++) {
      if (pairs[((data[at] as number) << 8) | (data[at + 1] as number)] === 1) return at;
    }
    return from <= last && firsts[data[last] as number] === 1 ? last : data.length;
  }

  #step(byte: number, at: number): void {
    const next = new Map<State, number>();
    const enter = (states: readonly State[] | undefined, start: number): void => {
      for (const state of states ?? []) {
        if (state.placeholder !== undefined) this.#addMatch({ start, end: at + 1, to: state.placeholder });
        else if ((next.get(state) ?? Infinity) > start) next.set(state, start);
      }
    };
    for (const [state, start] of this.#open) enter(state.step(byte), start);
    enter(this.#forms.start.step(byte), at);
    this.#open = next;
  }

  /** Adds a match. Overlapping matches become one. */
  #addMatch(match: Match): void {
    let whole = match;
    while ((this.#matches.at(-1)?.end ?? 0) > whole.start) {
      const { start, end, to } = this.#matches.pop() as Match;
      const isWider = end - start > whole.end - whole.start;
      whole = {
        start: Math.min(start, whole.start),
        end: Math.max(end, whole.end),
        to: isWider ? to : whole.to,
      };
    }
    this.#matches.push(whole);
  }

  /** The position up to which later bytes change nothing. */
  #settle(length: number): number {
    const safe = Math.min(length, ...this.#open.values());
    return this.#matches.reduce(
      (least, { start, end }) => (end > safe ? Math.min(least, start) : least),
      safe,
    );
  }

  #emit(data: Buffer, safe: number): Buffer {
    const parts: Buffer[] = [];
    let at = this.#given;
    for (const { start, end, to } of this.#matches.filter((match) => match.end <= safe)) {
      if (start < this.#given) throw new Error("the rest of a secret is not given out");
      parts.push(data.subarray(at, start), to);
      at = end;
    }
    if (at < safe) parts.push(data.subarray(at, safe));
    this.#held = data.subarray(safe);
    this.#given = Math.max(0, this.#given - safe);
    this.#open = new Map([...this.#open].map(([state, start]) => [state, start - safe]));
    this.#matches = this.#matches
      .filter(({ end }) => end > safe)
      .map(({ start, end, to }) => ({ start: start - safe, end: end - safe, to }));
    return Buffer.concat(parts);
  }
}

/** Scrubs a text of an HTTP head, in which each character is a byte. */
export function scrubText(forms: SecretForms, text: string): string {
  const scrubber = new Scrubber(forms);
  const bytes = Buffer.from(text, "latin1");
  return Buffer.concat([scrubber.write(bytes), scrubber.end()]).toString("latin1");
}

export class ScrubStream extends Transform {
  readonly #scrubber: Scrubber;
  readonly #idleMs: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** `idleMs` limits how long bytes are held back: in a dialogue the other side may wait for them. */
  constructor(forms: SecretForms, options: { idleMs?: number } = {}) {
    super();
    this.#scrubber = new Scrubber(forms);
    this.#idleMs = options.idleMs;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    clearTimeout(this.#timer);
    this.#try(done, () => this.#scrubber.write(chunk));
    if (this.#idleMs !== undefined && this.#scrubber.holdsBack) this.#wait(this.#idleMs);
  }

  override _flush(done: TransformCallback): void {
    clearTimeout(this.#timer);
    this.#try(done, () => this.#scrubber.end());
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    clearTimeout(this.#timer);
    done(error);
  }

  #try(done: TransformCallback, work: () => Buffer): void {
    let given: Buffer;
    try {
      given = work();
    } catch (error) {
      return done(error as Error);
    }
    if (given.length > 0) this.push(given);
    done();
  }

  #wait(ms: number): void {
    this.#timer = setTimeout(() => {
      // A reader that is slow on purpose could get half a secret, so the bytes wait until it has caught up.
      if (this.readableLength > 0 || this.writableLength > 0) return this.#wait(ms);
      const given = this.#scrubber.release();
      if (given.length > 0) this.push(given);
    }, ms);
  }
}
