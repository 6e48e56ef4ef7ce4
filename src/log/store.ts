import type { SessionSpec } from "../contract/index.ts";
import type { Batch, Claim, ListPage, NewSession, Remembered, RestingPage, SessionRow } from "./port.ts";
import { DAMAGED_AGENT } from "./port.ts";
import type { NewSegment, Segment } from "./segment.ts";
import type { TurnRows } from "./kept/turns.ts";
import type { UsageRows } from "./kept/usage.ts";

/** The rows of a log. Its methods are synchronous, except for a long commit. Each write is one transaction. */
export interface SegmentStore {
  /** Creates all in one transaction; the row is undefined for a session that exists already. */
  create(sessions: readonly NewSession[]): (SessionRow | undefined)[];
  find(session: string): SessionRow | undefined;
  list(page: ListPage): SessionRow[];
  resting(page: RestingPage): SessionRow[];
  size(): number;
  active(): SessionRow[];
  /** The position of a session, without the rest of its row. */
  position(session: string): Position | undefined;
  /** The sessions whose position differs from the given one, in one query. */
  strayed(believed: ReadonlyMap<string, Position>): string[];

  claim(session: string, claim: Claim): number;
  /**
   * False, with nothing written, when the head is no longer at `commit.position`. If it returns a promise, no other
   * method may be called before that settles.
   */
  commit(commit: Commit): boolean | Promise<boolean>;
  recall(session: string, key: string): Remembered | undefined;
  readonly turns: TurnRows;
  readonly usage: UsageRows;
  trim(session: string, through: number): void;
  remove(session: string): void;
  /** Gives the session a name that no client knows, and fences its writers. */
  retire(session: string, name: string): void;
  retired(): SessionRow[];

  /** The segments with the `limit` events after the sequence `after`, or the first few of these segments. */
  segments(ordinal: number, range: { after: number; limit: number; raw: boolean }): Segment[];
  blob(hash: string): string | undefined;

  /** A number that changes when another process has written. */
  version(): number;
  watch(): ForeignWatch;
  close(): void | Promise<void>;
}

export interface Position {
  readonly ordinal: number;
  readonly createdAt: number;
  readonly head: number;
  readonly floor: number;
}

export interface Commit {
  readonly session: string;
  readonly position: Position;
  readonly batch: Batch;
  readonly segments: readonly NewSegment[];
}

/** The watch for writes of other processes. */
export interface ForeignWatch {
  /** Calls `look` soon after each possible write. */
  start(look: () => void): void;
  pause(): void;
  close(): void;
}

/** A row of a query, in either database. Numbers may be texts, and flags numbers. */
export type StoredRow = Readonly<Record<string, unknown>>;

export function toPosition(row: StoredRow): Position {
  return {
    ordinal: Number(row["ordinal"]),
    createdAt: Number(row["created_at"]),
    head: Number(row["head"]),
    floor: Number(row["floor"]),
  };
}

export function toSessionRow(row: StoredRow): SessionRow {
  const state = parseState(row["checkpoint"]);
  const decoderState = state !== undefined && {
    checkpoint: state,
    checkpointOffset: Number(row["checkpoint_at"]),
  };
  const spool = row["process"] !== null && {
    spool: { process: Number(row["process"]), offset: Number(row["spool_offset"]), ...decoderState },
  };
  const fold = parseState(row["snapshot"]);
  return {
    id: String(row["id"]),
    ...toPosition(row),
    ...(row["tenant"] === null ? {} : { tenant: String(row["tenant"]) }),
    spec: parseSpec(row["spec"]),
    updatedAt: Number(row["updated_at"]),
    epoch: Number(row["epoch"]),
    owner: String(row["owner"]),
    active: Boolean(row["active"]),
    ...spool,
    ...(fold !== undefined && { snapshot: { at: Number(row["snapshot_at"]), state: fold } }),
  };
}

/** A session whose spec is damaged can be read and removed, but starts no agent. */
function parseSpec(text: unknown): SessionSpec {
  const spec = parseState(text) as Partial<SessionSpec> | null | undefined;
  return typeof spec?.agent === "string" ? (spec as SessionSpec) : { agent: DAMAGED_AGENT };
}

/** A damaged state counts as missing: a state only saves work. */
function parseState(text: unknown): unknown {
  if (text === null) return undefined;
  try {
    return JSON.parse(String(text)) as unknown;
  } catch {
    return undefined;
  }
}
