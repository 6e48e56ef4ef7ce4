import type { CheckpointStorage } from "../port.ts";
import { sha256 } from "./integrity.ts";
import { buildPack, toPackKey, type Piece, type WrittenPack } from "./pack.ts";

const PACK_BYTES = 4 * 1024 * 1024;
/** Below this size the files of a checkpoint and the pages of its manifest share one pack. */
const SMALL_BYTES = PACK_BYTES / 4;
const AT_ONCE = 4;

/** Gathers pieces into packs. A full pack is compressed and stored while the next one fills. */
export class PackWriter {
  readonly #storage: CheckpointStorage;
  readonly #isKnown: (sha256: string) => boolean;
  readonly #added = new Set<string>();
  readonly #writing = new Set<Promise<void>>();
  readonly #packs: WrittenPack[] = [];
  #files = new Batch();
  #pages = new Batch();
  #failure: unknown;
  objects = 0;
  bytes = 0;

  constructor(storage: CheckpointStorage, isKnown: (sha256: string) => boolean) {
    this.#storage = storage;
    this.#isKnown = isKnown;
  }

  has(sha256: string): boolean {
    return this.#added.has(sha256) || this.#isKnown(sha256);
  }

  /** `page` keeps a manifest's pages together, so that reading it needs few packs. */
  async add(piece: Piece, options: { page?: boolean } = {}): Promise<void> {
    if (this.has(piece.sha256)) return;
    this.#added.add(piece.sha256);
    const batch = options.page ? this.#pages : this.#files;
    batch.push(piece);
    if (batch.bytes < PACK_BYTES) return;
    if (options.page) this.#pages = new Batch();
    else this.#files = new Batch();
    await this.#write(batch);
  }

  /** Stores the last packs and waits for all. */
  async finish(): Promise<readonly WrittenPack[]> {
    const together = this.#files.bytes + this.#pages.bytes < SMALL_BYTES;
    if (together) for (const piece of this.#pages.pieces.splice(0)) this.#files.push(piece);
    await this.#write(this.#files);
    await this.#write(this.#pages);
    await this.settle();
    if (this.#failure !== undefined) throw this.#failure;
    return this.#packs;
  }

  /** Waits for the writes in progress, also after a failure. */
  async settle(): Promise<void> {
    await Promise.all(this.#writing);
  }

  async #write(batch: Batch): Promise<void> {
    if (batch.pieces.length === 0) return;
    while (this.#writing.size >= AT_ONCE) await Promise.race(this.#writing);
    if (this.#failure !== undefined) throw this.#failure;
    const write = this.#store(batch.pieces)
      .catch((error: unknown) => {
        this.#failure ??= error;
      })
      .finally(() => this.#writing.delete(write));
    this.#writing.add(write);
  }

  async #store(pieces: readonly Piece[]): Promise<void> {
    const bytes = await buildPack(pieces);
    const name = sha256(bytes);
    if (await this.#storage.putIfAbsent(toPackKey(name), bytes)) {
      this.objects += 1;
      this.bytes += bytes.length;
    }
    this.#packs.push({ sha256: name, pieces: pieces.map((piece) => piece.sha256) });
  }
}

class Batch {
  readonly pieces: Piece[] = [];
  bytes = 0;

  push(piece: Piece): void {
    this.pieces.push(piece);
    this.bytes += piece.bytes.length;
  }
}
