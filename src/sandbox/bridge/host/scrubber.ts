import { Transform, type TransformCallback } from "node:stream";
import type { SecretForms, State } from "./secretForms.ts";

interface Match {
  readonly start: number;
  readonly end: number;
  readonly to: Buffer;
}

/** Takes every form of the secrets out of what passes, however it is cut. Holds back only what may be the beginning of one. */
export class Scrubber {
  readonly #forms: SecretForms;
  /** Not given out yet, but for its first `#given` bytes. */
  #held: Buffer = Buffer.alloc(0);
  #given = 0;
  /** What may become a match, by where it began. */
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

  /** Gives out what is held back, for who waits for it. Should it turn out to be a secret, the rest is never given out. */
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
        if (state.placeholder !== undefined) this.#found({ start, end: at + 1, to: state.placeholder });
        else if ((next.get(state) ?? Infinity) > start) next.set(state, start);
      }
    };
    for (const [state, start] of this.#open) enter(state.step(byte), start);
    enter(this.#forms.start.step(byte), at);
    this.#open = next;
  }

  /** Matches that overlap are one. */
  #found(match: Match): void {
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

  /** Up to where nothing can change any more. */
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

/** The whole of a text at once; a text of a head, whose characters are bytes. */
export function scrubText(forms: SecretForms, text: string): string {
  const scrubber = new Scrubber(forms);
  const bytes = Buffer.from(text, "latin1");
  return Buffer.concat([scrubber.write(bytes), scrubber.end()]).toString("latin1");
}

/** The same in a stream. */
export class ScrubStream extends Transform {
  readonly #scrubber: Scrubber;
  readonly #idleMs: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** With `idleMs` nothing is held back for longer: in a dialogue, the other side may wait for just that. */
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
      // A reader that is slow on purpose could cut a secret in two.
      if (this.readableLength > 0 || this.writableLength > 0) return this.#wait(ms);
      const given = this.#scrubber.release();
      if (given.length > 0) this.push(given);
    }, ms);
  }
}
