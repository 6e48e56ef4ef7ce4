import { randomBytes } from "node:crypto";
import { MemoryBytes } from "./bytes/memory.ts";
import type {
  Catalog,
  Change,
  CreateDocument,
  Document,
  ListQuery,
  RemoveDocument,
  ReplaceDocument,
} from "./port.ts";
import { bytesMissing, documentExists, documentNotFound, keyTaken, revisionMoved } from "./refusals.ts";
import { seal, unseal } from "./seal.ts";

export interface MemoryCatalogOptions {
  readonly now?: () => number;
}

/** A catalog that is gone with the process. */
export function createMemoryCatalog(options: MemoryCatalogOptions = {}): Catalog {
  return new MemoryCatalog(options.now ?? Date.now);
}

interface Row extends Document {
  readonly owner: string;
  readonly uniqueKey: string | undefined;
  readonly sealed: string | undefined;
  readonly hashes: readonly string[];
  readonly bytesUntil: number | undefined;
}

class MemoryCatalog implements Catalog {
  readonly #now: () => number;
  readonly #key = randomBytes(32);
  readonly bytes: MemoryBytes;
  /** By ordinal, in order. */
  #rows = new Map<number, Row>();
  #lastOrdinal = 0;
  #lastTime = 0;

  constructor(now: () => number) {
    this.#now = now;
    this.bytes = new MemoryBytes((hash) => this.#isNamed(hash));
  }

  async write(owner: string, changes: readonly Change[]): Promise<Document[]> {
    const before = new Map(this.#rows);
    try {
      const written = changes.flatMap((change) => {
        if (change.op === "create") return [this.#create(owner, change)];
        if (change.op === "replace") return [this.#replace(owner, change)];
        this.#remove(owner, change);
        return [];
      });
      return written.map(toDocument);
    } catch (error) {
      this.#rows = before;
      throw error;
    } finally {
      this.bytes.settle();
    }
  }

  async find(owner: string, kind: string, id: string): Promise<Document | undefined> {
    const row = this.#find(owner, kind, id);
    return row && toDocument(row);
  }

  async ownersOf(kind: string, id: string): Promise<string[]> {
    const rows = [...this.#rows.values()].filter((row) => row.kind === kind && row.id === id);
    return rows.map(({ owner }) => owner).sort();
  }

  async list(owner: string, query: ListQuery): Promise<Document[]> {
    const rows = [...this.#rows.values()].filter((row) => row.owner === owner && isListed(row, query));
    const { after, order = "asc" } = query;
    if (order === "desc") rows.reverse();
    const behind =
      after === undefined
        ? rows
        : rows.filter((row) => (order === "asc" ? row.ordinal > after : row.ordinal < after));
    return behind.slice(0, query.limit).map(toDocument);
  }

  async openSecret(owner: string, kind: string, id: string): Promise<string | undefined> {
    const sealed = this.#find(owner, kind, id)?.sealed;
    return sealed === undefined ? undefined : unseal(this.#key, sealed, { owner, kind, id });
  }

  async close(): Promise<void> {
    this.#rows.clear();
    this.bytes.settle();
  }

  #create(owner: string, change: CreateDocument): Row {
    const { kind, id } = change;
    if (this.#find(owner, kind, id)) throw documentExists(kind, id);
    this.#lastTime = Math.max(this.#now(), this.#lastTime);
    this.#lastOrdinal += 1;
    return this.#put({
      owner,
      kind,
      id,
      parent: change.parent,
      ordinal: this.#lastOrdinal,
      revision: 1,
      createdAt: this.#lastTime,
      updatedAt: this.#lastTime,
      archived: change.archived ?? false,
      labels: { ...change.labels },
      body: structuredClone(change.body),
      uniqueKey: change.uniqueKey ?? undefined,
      sealed: this.#seal(owner, change),
      hashes: [...(change.bytes ?? [])],
      bytesUntil: change.bytesUntil ?? undefined,
    });
  }

  #replace(owner: string, change: ReplaceDocument): Row {
    const { kind, id } = change;
    const row = this.#find(owner, kind, id);
    if (!row) throw documentNotFound(kind, id);
    if (row.revision !== change.expect) throw revisionMoved(kind, id, change.expect, row.revision);
    return this.#put({
      ...row,
      revision: row.revision + 1,
      updatedAt: Math.max(this.#now(), row.updatedAt),
      archived: change.archived ?? row.archived,
      labels: change.labels ? { ...change.labels } : row.labels,
      body: structuredClone(change.body),
      uniqueKey: change.uniqueKey === undefined ? row.uniqueKey : (change.uniqueKey ?? undefined),
      sealed: change.secret === undefined ? row.sealed : this.#seal(owner, change),
      hashes: change.bytes ? [...change.bytes] : row.hashes,
      bytesUntil: change.bytesUntil === undefined ? row.bytesUntil : (change.bytesUntil ?? undefined),
    });
  }

  #remove(owner: string, { kind, id, children }: RemoveDocument): void {
    const row = this.#find(owner, kind, id);
    if (!row) throw documentNotFound(kind, id);
    this.#rows.delete(row.ordinal);
    if (!children) return;
    for (const child of this.#rows.values())
      if (child.owner === owner && child.parent === id) this.#rows.delete(child.ordinal);
  }

  #put(row: Row): Row {
    const { owner, kind, uniqueKey } = row;
    for (const other of this.#rows.values()) {
      const isRival = other.owner === owner && other.kind === kind && other.ordinal !== row.ordinal;
      if (isRival && uniqueKey !== undefined && other.uniqueKey === uniqueKey)
        throw keyTaken(kind, uniqueKey);
    }
    for (const hash of row.hashes) if (!this.bytes.has(hash)) throw bytesMissing(hash);
    this.#rows.set(row.ordinal, row);
    return row;
  }

  #seal(owner: string, { kind, id, secret }: CreateDocument | ReplaceDocument): string | undefined {
    return secret === undefined || secret === null ? undefined : seal(this.#key, secret, { owner, kind, id });
  }

  #find(owner: string, kind: string, id: string): Row | undefined {
    for (const row of this.#rows.values())
      if (row.owner === owner && row.kind === kind && row.id === id) return row;
    return undefined;
  }

  #isNamed(hash: string): boolean {
    const now = this.#now();
    for (const { hashes, bytesUntil } of this.#rows.values())
      if (hashes.includes(hash) && (bytesUntil === undefined || bytesUntil > now)) return true;
    return false;
  }
}

function isListed(row: Row, query: ListQuery): boolean {
  const { created = {}, labels = {} } = query;
  if (row.kind !== query.kind) return false;
  if (query.parent !== undefined && row.parent !== query.parent) return false;
  if (row.archived && query.archived !== true) return false;
  if (query.ids && !query.ids.includes(row.id)) return false;
  for (const [name, value] of Object.entries(labels)) if (row.labels[name] !== value) return false;
  return (
    row.createdAt > (created.gt ?? -1) &&
    row.createdAt >= (created.gte ?? 0) &&
    row.createdAt < (created.lt ?? Infinity) &&
    row.createdAt <= (created.lte ?? Infinity)
  );
}

function toDocument(row: Row): Document {
  const { kind, id, parent, ordinal, revision, createdAt, updatedAt, archived, labels } = row;
  const body = structuredClone(row.body);
  return { kind, id, parent, ordinal, revision, createdAt, updatedAt, archived, labels: { ...labels }, body };
}
