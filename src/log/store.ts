import type { Blob } from "./outline.ts";
import type { Batch, Claim, NewSession, Remembered, RestingPage, SessionRow } from "./port.ts";
import type { NewSegment, Segment } from "./segment.ts";

/**
 * What a log keeps its rows in. Its methods do all their work before they return, but for a long commit; each write is
 * one transaction.
 */
export interface SegmentStore {
  create(session: NewSession): SessionRow;
  find(session: string): SessionRow | undefined;
  list(page: { before?: number; limit: number }): SessionRow[];
  resting(page: RestingPage): SessionRow[];
  size(): number;
  active(): SessionRow[];
  /** A session's numbers alone. */
  place(session: string): Place | undefined;
  /** Those of the sessions that are not, or no longer, where they are believed to be: in one look. */
  strayed(believed: ReadonlyMap<string, Place>): string[];

  claim(session: string, claim: Claim): number;
  /**
   * False, with nothing written, when the head is no longer where `commit.place` says. Where it answers a promise,
   * nothing else may be called until that settles.
   */
  commit(commit: Commit): boolean | Promise<boolean>;
  recall(session: string, key: string): Remembered | undefined;
  trim(session: string, through: number): void;
  remove(session: string): void;
  /** Gives the session the name that only those know who hold it; its writers are fenced. */
  retire(session: string, name: string): void;
  retired(): SessionRow[];

  /** The segments that hold the `limit` events behind `after`, or the first few of them. */
  segments(ordinal: number, range: { after: number; limit: number; raw: boolean }): Segment[];
  blob(hash: string): string | undefined;

  /** A number that changes when somebody else has written. */
  version(): number;
  /** Calls `look` soon after somebody else may have written. */
  watch(): ForeignWatch;
  close(): void | Promise<void>;
}

export interface Place {
  readonly ordinal: number;
  readonly createdAt: number;
  readonly head: number;
  readonly floor: number;
}

export interface Commit {
  readonly session: string;
  readonly place: Place;
  readonly batch: Batch;
  readonly segments: readonly NewSegment[];
}

export interface ForeignWatch {
  start(look: () => void): void;
  pause(): void;
  close(): void;
}

export function blobsOf(segments: readonly NewSegment[]): Blob[] {
  return segments.flatMap((segment) => segment.blobs);
}
