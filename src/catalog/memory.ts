import { createHash, randomBytes } from "node:crypto";
import { decrypt, encrypt } from "./encryption.ts";
import type {
  Bytes,
  Catalog,
  Change,
  CreateDocument,
  Document,
  HeldBytes,
  ListQuery,
  RemoveDocument,
  ReplaceDocument,
  StoredBytes,
  WriteBytesOptions,
} from "./port.ts";
import {
  bytesMissing,
  bytesTooLarge,
  documentExists,
  documentNotFound,
  keyTaken,
  revisionMoved,
} from "./refusals.ts";

export interface MemoryCatalogOptions {
  readonly now?: () => number;
}

/** A catalog in memory, lost with its process. */
export function createMemoryCatalog(options: MemoryCatalogOptions = {}): Catalog {
  return new MemoryCatalog(options.now ?? Date.now);
}

interface Row extends Document {
  readonly tenant: string;
  readonly uniqueKey: string | undefined;
  readonly encrypted: string | undefined;
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

  async write(tenant: string, changes: readonly Change[]): Promise<Document[]> {
    const before = new Map(this.#rows);
    try {
      const written = changes.flatMap((change) => {
        if (change.op === "create") return [this.#create(tenant, change)];
        if (change.op === "replace") return [this.#replace(tenant, change)];
        this.#remove(tenant, change);
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

  async find(tenant: string, kind: string, id: string): Promise<Document | undefined> {
    const row = this.#find(tenant, kind, id);
    return row && toDocument(row);
  }

  async tenantsOf(kind: string, id: string): Promise<string[]> {
    const rows = [...this.#rows.values()].filter((row) => row.kind === kind && row.id === id);
    return rows.map(({ tenant }) => tenant).sort();
  }

  async list(tenant: string, query: ListQuery): Promise<Document[]> {
    const rows = [...this.#rows.values()].filter((row) => row.tenant === tenant && isListed(row, query));
    const { after, order = "asc" } = query;
    if (order === "desc") rows.reverse();
    const rest =
      after === undefined
        ? rows
        : rows.filter((row) => (order === "asc" ? row.ordinal > after : row.ordinal < after));
    return rest.slice(0, query.limit).map(toDocument);
  }

  async openSecret(tenant: string, kind: string, id: string): Promise<string | undefined> {
    const encrypted = this.#find(tenant, kind, id)?.encrypted;
    return encrypted === undefined ? undefined : decrypt(this.#key, encrypted, { tenant, kind, id });
  }

  async close(): Promise<void> {
    this.#rows.clear();
    this.bytes.settle();
  }

  #create(tenant: string, change: CreateDocument): Row {
    const { kind, id } = change;
    if (this.#find(tenant, kind, id)) throw documentExists(kind, id);
    this.#lastTime = Math.max(this.#now(), this.#lastTime);
    this.#lastOrdinal += 1;
    return this.#put({
      tenant,
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
      encrypted: this.#encrypt(tenant, change),
      hashes: [...(change.bytes ?? [])],
      bytesUntil: change.bytesUntil ?? undefined,
    });
  }

  #replace(tenant: string, change: ReplaceDocument): Row {
    const { kind, id } = change;
    const row = this.#find(tenant, kind, id);
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
      encrypted: change.secret === undefined ? row.encrypted : this.#encrypt(tenant, change),
      hashes: change.bytes ? [...change.bytes] : row.hashes,
      bytesUntil: change.bytesUntil === undefined ? row.bytesUntil : (change.bytesUntil ?? undefined),
    });
  }

  #remove(tenant: string, { kind, id, children }: RemoveDocument): void {
    const row = this.#find(tenant, kind, id);
    if (!row) throw documentNotFound(kind, id);
    this.#rows.delete(row.ordinal);
    if (!children) return;
    for (const child of this.#rows.values())
      if (child.tenant === tenant && child.parent === id) this.#rows.delete(child.ordinal);
  }

  #put(row: Row): Row {
    const { tenant, kind, uniqueKey } = row;
    for (const other of this.#rows.values()) {
      const isRival = other.tenant === tenant && other.kind === kind && other.ordinal !== row.ordinal;
      if (isRival && uniqueKey !== undefined && other.uniqueKey === uniqueKey)
        throw keyTaken(kind, uniqueKey);
    }
    for (const hash of row.hashes) if (!this.bytes.has(hash)) throw bytesMissing(hash);
    this.#rows.set(row.ordinal, row);
    return row;
  }

  #encrypt(tenant: string, { kind, id, secret }: CreateDocument | ReplaceDocument): string | undefined {
    return secret === undefined || secret === null
      ? undefined
      : encrypt(this.#key, secret, { tenant, kind, id });
  }

  #find(tenant: string, kind: string, id: string): Row | undefined {
    for (const row of this.#rows.values())
      if (row.tenant === tenant && row.kind === kind && row.id === id) return row;
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

class MemoryBytes implements Bytes {
  readonly #isNamed: (hash: string) => boolean;
  readonly #contents = new Map<string, Buffer>();
  /** The number of holds on each content. */
  readonly #holds = new Map<string, number>();

  constructor(isNamed: (hash: string) => boolean) {
    this.#isNamed = isNamed;
  }

  async write(
    source: AsyncIterable<Uint8Array>,
    { limit = Infinity }: WriteBytesOptions = {},
  ): Promise<HeldBytes> {
    const chunks: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of source) {
      size += chunk.length;
      if (size > limit) throw bytesTooLarge(limit);
      chunks.push(Buffer.from(chunk));
    }
    const content = Buffer.concat(chunks);
    const hash = createHash("sha256").update(content).digest("hex");
    this.#contents.set(hash, content);
    this.#holds.set(hash, (this.#holds.get(hash) ?? 0) + 1);
    let isHeld = true;
    const release = async (): Promise<void> => {
      if (!isHeld) return;
      isHeld = false;
      this.#holds.set(hash, (this.#holds.get(hash) ?? 1) - 1);
      this.settle();
    };
    return { hash, size, release };
  }

  async read(hash: string): Promise<StoredBytes | undefined> {
    const content = this.#contents.get(hash);
    if (!content) return undefined;
    return { size: content.length, stream: () => new Blob([new Uint8Array(content)]).stream() };
  }

  has(hash: string): boolean {
    return this.#contents.has(hash);
  }

  settle(): void {
    for (const hash of this.#contents.keys()) {
      if ((this.#holds.get(hash) ?? 0) > 0 || this.#isNamed(hash)) continue;
      this.#contents.delete(hash);
      this.#holds.delete(hash);
    }
  }
}
