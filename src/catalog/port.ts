/**
 * Documents by kind and id, with the bytes that they name and their secrets. They change in place, so they do not belong
 * in a log. Only a dialect knows the meaning of its kinds.
 */
export interface Catalog {
  /** Stores all of the changes, or none; returns the created and replaced documents, in order. */
  write(tenant: string, changes: readonly Change[]): Promise<Document[]>;
  find(tenant: string, kind: string, id: string): Promise<Document | undefined>;
  /** The tenants that have a document of this kind and id. */
  tenantsOf(kind: string, id: string): Promise<string[]>;
  /** At most `limit` documents. The cost depends on the page and not on the number of documents. */
  list(tenant: string, query: ListQuery): Promise<Document[]>;
  /** The only access to a document's secret; no document carries it. */
  openSecret(tenant: string, kind: string, id: string): Promise<string | undefined>;
  readonly bytes: Bytes;
  close(): Promise<void>;
}

export interface Document<Body = unknown> {
  readonly kind: string;
  readonly id: string;
  readonly parent: string | undefined;
  /** The document's position in the order of creation, never reused. Cursors are made of it. */
  readonly ordinal: number;
  /** From 1; every replacement adds one. */
  readonly revision: number;
  /** Milliseconds since 1970. A later document never has an earlier time, even if the clock is set back. */
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly archived: boolean;
  readonly labels: Readonly<Record<string, string>>;
  readonly body: Body;
}

export type Change = CreateDocument | ReplaceDocument | RemoveDocument;

interface DocumentFields {
  /** Plain JSON. */
  readonly body: unknown;
  /** Left out of lists by default. */
  readonly archived?: boolean;
  /** Lists can filter by these. */
  readonly labels?: Readonly<Record<string, string>>;
  /** A key that only one document of its tenant and kind may have; `null` removes it. */
  readonly uniqueKey?: string | null;
  /** Encrypted at rest; `null` forgets it. */
  readonly secret?: string | null;
  /** The hashes of the bytes that the document names. Bytes are kept as long as a document names them. */
  readonly bytes?: readonly string[];
  /** The time from which the document no longer needs its bytes. */
  readonly bytesUntil?: number | null;
}

export interface CreateDocument extends DocumentFields {
  readonly op: "create";
  readonly kind: string;
  readonly id: string;
  readonly parent?: string | undefined;
}

/** A field that is left out keeps its value, except for the body. */
export interface ReplaceDocument extends DocumentFields {
  readonly op: "replace";
  readonly kind: string;
  readonly id: string;
  /** The revision that the change is based on; if the document has another, it fails with `version_conflict`. */
  readonly expect: number;
}

export interface RemoveDocument {
  readonly op: "remove";
  readonly kind: string;
  readonly id: string;
  /** Whether every document with this parent is removed, too. */
  readonly children?: boolean;
}

export interface ListQuery {
  readonly kind: string;
  readonly parent?: string | undefined;
  /** Order of creation; ascending by default. */
  readonly order?: "asc" | "desc";
  /** An ordinal: the list begins after it, in this order. */
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

/** Stored bytes by their SHA-256. Bytes that no document names are removed, unless they are held. */
export interface Bytes {
  /** Stores the bytes of a stream. If the source fails or exceeds `limit`, nothing is stored. */
  write(source: AsyncIterable<Uint8Array>, options?: WriteBytesOptions): Promise<HeldBytes>;
  /** Undefined where no bytes have this hash. */
  read(hash: string): Promise<StoredBytes | undefined>;
}

export interface WriteBytesOptions {
  readonly limit?: number;
}

export interface HeldBytes {
  readonly hash: string;
  readonly size: number;
  /** Ends the hold. Bytes that no document names by then are removed. */
  release(): Promise<void>;
}

export interface StoredBytes {
  readonly size: number;
  /** The file with the bytes on this host, to copy from and never to change. Absent where they are in no file. */
  readonly path?: string;
  stream(): ReadableStream<Uint8Array>;
}
