import type { ByteRows } from "../sqlite/byte-rows.ts";
import { toSluiceError } from "../../sqlite/failures.ts";
import type { ByteFiles } from "./files.ts";
import type { Bytes, HeldBytes, StoredBytes, WriteBytesOptions } from "./port.ts";

const HASH = /^[0-9a-f]{64}$/;

/** Contents in files, with the rows that say who needs them. */
export class FileBytes implements Bytes {
  readonly #files: ByteFiles;
  readonly #rows: ByteRows;
  readonly #folder: string;

  constructor(files: ByteFiles, rows: ByteRows, folder: string) {
    this.#files = files;
    this.#rows = rows;
    this.#folder = folder;
  }

  async write(
    source: AsyncIterable<Uint8Array>,
    { limit = Infinity }: WriteBytesOptions = {},
  ): Promise<HeldBytes> {
    try {
      const draft = await this.#files.draft(source, limit);
      const { hash, size } = draft;
      let hold: number | undefined;
      try {
        hold = await this.#rows.hold(hash);
        await draft.keep();
      } catch (error) {
        await draft.discard();
        if (hold !== undefined) await this.#rows.release(hold);
        throw error;
      }
      return { hash, size, release: () => this.#rows.release(hold) };
    } catch (error) {
      throw toSluiceError(error, this.#folder);
    }
  }

  async read(hash: string): Promise<StoredBytes | undefined> {
    const size = HASH.test(hash) ? this.#files.sizeOf(hash) : undefined;
    if (size === undefined) return undefined;
    return { size, path: this.#files.pathOf(hash), stream: () => this.#files.stream(hash) };
  }
}
