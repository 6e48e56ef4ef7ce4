import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { CheckpointStorage } from "../port.ts";
import { corrupt, parsePack, parsePackHead, sha256, toPackKey, type WrittenPack } from "./pack.ts";

const MAGIC = "SLI1";
const PREFIX = "indexes/";

/**
 * Maps pieces to packs. The index is stored in parts: immutable objects, each written with the packs that it names, and
 * cached on this host. It can be rebuilt from the packs.
 */
export class ContentIndex {
  readonly #storage: CheckpointStorage;
  readonly #folder: string;
  readonly #loaded = new Set<string>();
  readonly #damaged = new Set<string>();
  readonly #packs = new Map<string, readonly string[]>();
  readonly #packByPiece = new Map<string, string>();

  constructor(storage: CheckpointStorage, cacheFolder: string) {
    this.#storage = storage;
    this.#folder = join(cacheFolder, "indexes");
  }

  has(piece: string): boolean {
    return this.#packByPiece.has(piece);
  }

  packOf(piece: string): string | undefined {
    return this.#packByPiece.get(piece);
  }

  packs(): ReadonlyMap<string, readonly string[]> {
    return this.#packs;
  }

  /** Loads the parts that other processes have published, and forgets those that they have removed. */
  async refresh(): Promise<void> {
    const keys = new Set(await this.#storage.list(PREFIX));
    if ([...this.#loaded].some((key) => !keys.has(key))) {
      this.#clear();
      await this.#prune(keys);
    }
    for (const key of keys) if (!this.#loaded.has(key)) await this.#load(key);
  }

  /** As `refresh`, and reads every pack that no part names, for a storage that has lost its index. */
  async refreshFromPacks(): Promise<void> {
    await this.refresh();
    for (const key of await this.#storage.list("packs/")) {
      const name = key.slice(key.lastIndexOf("/") + 1);
      if (this.#packs.has(name)) continue;
      const bytes = await this.#storage.get(key);
      if (bytes === undefined || sha256(bytes) !== name) continue;
      this.#learn({ sha256: name, pieces: parsePackHead(key, bytes).map((piece) => piece.sha256) });
    }
  }

  /** Publishes these packs; returns the bytes that were written. */
  async publish(packs: readonly WrittenPack[]): Promise<{ key: string; bytes: number }> {
    const bytes = toPart(packs.toSorted((a, b) => (a.sha256 < b.sha256 ? -1 : 1)));
    const key = PREFIX + sha256(bytes);
    // `put` replaces an object of this key, which may be damaged.
    await this.#storage.put(key, bytes);
    await this.#cache(key, bytes);
    for (const pack of packs) this.#learn(pack);
    this.#loaded.add(key);
    return { key, bytes: bytes.length };
  }

  /** Replaces all known parts by one. Parts that other processes publish meanwhile stay. */
  async replace(packs: readonly WrittenPack[]): Promise<void> {
    const before = [...this.#loaded, ...this.#damaged];
    this.#clear();
    const { key } = await this.publish(packs);
    for (const old of before) if (old !== key) await this.#storage.delete(old);
  }

  /** All pieces of a pack; its hash and theirs are checked. */
  async readPack(name: string): Promise<Map<string, Buffer>> {
    const key = toPackKey(name);
    const bytes = await this.#storage.get(key);
    if (bytes === undefined) throw corrupt(key, "is missing");
    if (sha256(bytes) !== name) throw corrupt(key, "has changed since it was written");
    return parsePack(key, bytes);
  }

  async #load(key: string): Promise<void> {
    const name = key.slice(PREFIX.length);
    const copy = await readFile(join(this.#folder, name)).catch(() => undefined);
    const good = copy !== undefined && sha256(copy) === name ? copy : undefined;
    const bytes = good ?? (await this.#storage.get(key));
    // A part that is gone or damaged can be rebuilt from the heads of the packs.
    if (bytes === undefined) return;
    if (sha256(bytes) !== name) {
      this.#damaged.add(key);
      return;
    }
    if (good === undefined) await this.#cache(key, bytes);
    for (const pack of parsePart(key, bytes)) this.#learn(pack);
    this.#loaded.add(key);
  }

  #learn(pack: WrittenPack): void {
    this.#packs.set(pack.sha256, pack.pieces);
    for (const piece of pack.pieces)
      if (!this.#packByPiece.has(piece)) this.#packByPiece.set(piece, pack.sha256);
  }

  #clear(): void {
    this.#loaded.clear();
    this.#damaged.clear();
    this.#packs.clear();
    this.#packByPiece.clear();
  }

  async #prune(keys: ReadonlySet<string>): Promise<void> {
    for (const name of await readdir(this.#folder).catch(() => [])) {
      if (!keys.has(PREFIX + name)) await rm(join(this.#folder, name), { force: true });
    }
  }

  async #cache(key: string, bytes: Uint8Array): Promise<void> {
    await replaceCached(join(this.#folder, key.slice(PREFIX.length)), bytes);
  }
}

/** Writes a file of the cache in one step. */
export async function replaceCached(file: string, content: Uint8Array | string): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const fresh = `${file}.${process.pid}.${Math.random().toString(36).slice(2)}`;
  try {
    await writeFile(fresh, content, { mode: 0o600 });
    await rename(fresh, file);
  } catch (error) {
    await rm(fresh, { force: true });
    throw error;
  }
}

/** "SLI1" and the number of packs; then for each its sha256, the number of its pieces, and the sha256 of each piece. */
function toPart(packs: readonly WrittenPack[]): Buffer {
  const head = Buffer.alloc(8);
  head.write(MAGIC, "latin1");
  head.writeUInt32BE(packs.length, 4);
  const parts = packs.map((pack) => {
    const count = Buffer.alloc(4);
    count.writeUInt32BE(pack.pieces.length);
    return Buffer.concat([Buffer.from(pack.sha256, "hex"), count, Buffer.from(pack.pieces.join(""), "hex")]);
  });
  return Buffer.concat([head, ...parts]);
}

function parsePart(key: string, bytes: Uint8Array): WrittenPack[] {
  const part = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (part.length < 8 || part.toString("latin1", 0, 4) !== MAGIC) throw corrupt(key, "is not an index");
  const packs: WrittenPack[] = [];
  let at = 8;
  const readHash = (): string => part.toString("hex", at, (at += 32));
  for (let left = part.readUInt32BE(4); left > 0; left--) {
    const name = readHash();
    const count = part.readUInt32BE(at);
    at += 4;
    packs.push({ sha256: name, pieces: Array.from({ length: count }, readHash) });
  }
  return packs;
}

const AT_ONCE = 3;

/** Reads pieces pack by pack, each pack once, and fetches the next packs ahead. */
export class PieceReader {
  readonly #index: ContentIndex;
  packs = 0;

  constructor(index: ContentIndex) {
    this.#index = index;
  }

  async readAll(pieces: readonly string[]): Promise<{ get(piece: string): Uint8Array }> {
    const found = new Map<string, Uint8Array>();
    await this.eachOf(pieces, (piece, bytes) => {
      // A copy, so that a page does not keep its whole pack in memory.
      found.set(piece, Uint8Array.from(bytes));
    });
    return { get: (piece) => found.get(piece) ?? missing(piece) };
  }

  /** Calls `use` once for each piece, one after the other. */
  async eachOf(
    pieces: readonly string[],
    use: (piece: string, bytes: Uint8Array) => Promise<void> | void,
  ): Promise<void> {
    const groups = [...(await this.#group(pieces))];
    const fetches: Promise<Map<string, Buffer>>[] = [];
    const fetchNext = (): void => {
      const next = groups[fetches.length];
      if (next === undefined) return;
      const fetch = this.#index.readPack(next[0]);
      // A rejection is handled later, when this fetch is awaited.
      fetch.catch(() => {});
      fetches.push(fetch);
    };
    for (let n = 0; n < AT_ONCE; n++) fetchNext();
    try {
      for (const [n, [, wanted]] of groups.entries()) {
        const pack = await fetches[n];
        this.packs += 1;
        fetches[n] = Promise.resolve(new Map());
        fetchNext();
        for (const piece of wanted) await use(piece, pack?.get(piece) ?? missing(piece));
      }
    } finally {
      await Promise.allSettled(fetches);
    }
  }

  async #group(pieces: readonly string[]): Promise<Map<string, Set<string>>> {
    if (pieces.some((piece) => !this.#index.has(piece))) await this.#index.refreshFromPacks();
    const groups = new Map<string, Set<string>>();
    for (const piece of pieces) {
      const pack = this.#index.packOf(piece) ?? missing(piece);
      const group = groups.get(pack);
      if (group) group.add(piece);
      else groups.set(pack, new Set([piece]));
    }
    return groups;
  }
}

function missing(piece: string): never {
  throw corrupt(`the piece ${piece}`, "is in no pack");
}
