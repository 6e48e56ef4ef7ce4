import type { ContentIndex } from "./content-index.ts";
import { corrupt } from "./integrity.ts";

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
