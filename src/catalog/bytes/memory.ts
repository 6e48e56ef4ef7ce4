import { createHash } from "node:crypto";
import { bytesTooLarge } from "../refusals.ts";
import type { Bytes, HeldBytes, StoredBytes, WriteBytesOptions } from "./port.ts";

export class MemoryBytes implements Bytes {
  readonly #isNamed: (hash: string) => boolean;
  readonly #contents = new Map<string, Buffer>();
  /** How many hands hold each. */
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
