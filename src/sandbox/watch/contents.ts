/** The last known contents of files, the least recently used ones forgotten beyond a number of bytes. */
export class Contents {
  readonly #maxBytes: number;
  readonly #known = new Map<string, Buffer>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get(path: string): Buffer | undefined {
    return this.#known.get(path);
  }

  set(path: string, content: Buffer | undefined): void {
    this.#forget(path);
    if (!content || content.length > this.#maxBytes) return;
    this.#known.set(path, content);
    this.#bytes += toCost(path, content);
    for (const [oldest] of this.#known) {
      if (this.#bytes <= this.#maxBytes) break;
      this.#forget(oldest);
    }
  }

  #forget(path: string): void {
    const content = this.#known.get(path);
    if (!content) return;
    this.#known.delete(path);
    this.#bytes -= toCost(path, content);
  }
}

/** An empty file takes its place too. */
function toCost(path: string, content: Buffer): number {
  return content.length + 2 * path.length + 100;
}
