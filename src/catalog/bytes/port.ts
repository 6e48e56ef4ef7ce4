/** Contents by their SHA-256. One that no document names is removed, but not while somebody has it in hand. */
export interface Bytes {
  /** Takes it as it comes; nothing is left behind when the source fails or gives more than `limit`. */
  write(source: AsyncIterable<Uint8Array>, options?: WriteBytesOptions): Promise<HeldBytes>;
  /** Undefined where there is no such content. */
  read(hash: string): Promise<StoredBytes | undefined>;
}

export interface WriteBytesOptions {
  readonly limit?: number;
}

export interface HeldBytes {
  readonly hash: string;
  readonly size: number;
  /** Lets go, whether or not a document names it by now. */
  release(): Promise<void>;
}

export interface StoredBytes {
  readonly size: number;
  /** Where the content lies on this host, to be copied from; never to be changed. Absent where it is in no file. */
  readonly path?: string;
  stream(): ReadableStream<Uint8Array>;
}
