import type { Bytes } from "./bytes/port.ts";

/**
 * Things that change in place and so have no home in a log: documents by kind and id, the bytes that they name, and
 * their secrets. What a kind means, only its dialect knows.
 */
export interface Catalog {
  /** All of the changes, or none; answers the documents that were created or replaced, in order. */
  write(owner: string, changes: readonly Change[]): Promise<Document[]>;
  find(owner: string, kind: string, id: string): Promise<Document | undefined>;
  /** Whose a document is that only its id is known of. */
  ownersOf(kind: string, id: string): Promise<string[]>;
  /** At most `limit` documents; costs what they cost, however many there are. */
  list(owner: string, query: ListQuery): Promise<Document[]>;
  /** The one way to a document's secret; no document carries it. */
  openSecret(owner: string, kind: string, id: string): Promise<string | undefined>;
  readonly bytes: Bytes;
  close(): Promise<void>;
}

export interface Document<Body = unknown> {
  readonly kind: string;
  readonly id: string;
  readonly parent: string | undefined;
  /** Its place in the order of creation, never used again: what cursors are made of. */
  readonly ordinal: number;
  /** From 1; every replacement adds one. */
  readonly revision: number;
  /** Milliseconds since 1970; never before that of an older document, whatever the clock does. */
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly archived: boolean;
  readonly labels: Readonly<Record<string, string>>;
  readonly body: Body;
}

export type Change = CreateDocument | ReplaceDocument | RemoveDocument;

interface Content {
  /** Plain JSON. */
  readonly body: unknown;
  /** Left out of lists unless they ask. */
  readonly archived?: boolean;
  /** What lists can filter by. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Held by at most one document of its owner and kind; `null` holds none. */
  readonly uniqueKey?: string | null;
  /** Sealed at rest; `null` forgets it. */
  readonly secret?: string | null;
  /** The contents that it needs; they stay as long as a document names them. */
  readonly bytes?: readonly string[];
  /** When it stops needing them, by itself. */
  readonly bytesUntil?: number | null;
}

export interface CreateDocument extends Content {
  readonly op: "create";
  readonly kind: string;
  readonly id: string;
  readonly parent?: string | undefined;
}

/** What is left out beside the body stays as it is. */
export interface ReplaceDocument extends Content {
  readonly op: "replace";
  readonly kind: string;
  readonly id: string;
  /** The revision that this was made from; another one fails with `version_conflict`. */
  readonly expect: number;
}

export interface RemoveDocument {
  readonly op: "remove";
  readonly kind: string;
  readonly id: string;
  /** Also everything whose parent it is. */
  readonly children?: boolean;
}

export interface ListQuery {
  readonly kind: string;
  readonly parent?: string | undefined;
  /** Of creation; ascending unless said otherwise. */
  readonly order?: "asc" | "desc";
  /** An ordinal: only what lies behind it, in this order. */
  readonly after?: number | undefined;
  readonly limit: number;
  readonly archived?: boolean | undefined;
  readonly ids?: readonly string[] | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly created?: TimeRange | undefined;
}

export interface TimeRange {
  readonly gt?: number | undefined;
  readonly gte?: number | undefined;
  readonly lt?: number | undefined;
  readonly lte?: number | undefined;
}
