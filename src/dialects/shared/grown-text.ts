/**
 * A text that was emitted in deltas, by its length and a hash. A reader's state does not keep the text itself: a long
 * answer would be in memory once for each view.
 */
export interface GrownText {
  readonly length: number;
  readonly hash: number;
  readonly otherHash: number;
}

export const NO_TEXT: GrownText = { length: 0, hash: 0x811c9dc5, otherHash: 0x9e3779b9 };

export function growBy(known: GrownText, delta: string): GrownText {
  let { hash, otherHash } = known;
  for (let at = 0; at < delta.length; at += 1) {
    const code = delta.charCodeAt(at);
    hash = Math.imul(hash ^ code, 0x01000193);
    otherHash = Math.imul(otherHash ^ code, 0x5bd1e995);
    otherHash ^= otherHash >>> 15;
  }
  return { length: known.length + delta.length, hash, otherHash };
}

/** The part of a whole text behind the emitted one; undefined if the whole text begins otherwise. */
export function restBehind(known: GrownText, whole: string): string | undefined {
  if (whole.length < known.length) return undefined;
  const { hash, otherHash } = growBy(NO_TEXT, whole.slice(0, known.length));
  return hash === known.hash && otherHash === known.otherHash ? whole.slice(known.length) : undefined;
}
