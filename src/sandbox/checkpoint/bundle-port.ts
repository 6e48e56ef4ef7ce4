/**
 * A checkpoint on its way from another machine: the manifest, and packs with the content that the manifest `base` does
 * not have. Everything in it may be forged.
 */
export interface CheckpointBundle {
  readonly hash: string;
  /** The manifest that both sides have. */
  readonly base?: string | undefined;
  /** The names of the packs. */
  readonly packs: readonly string[];
  read(key: string): Promise<Uint8Array>;
}

/** The other machine, for a checkpoint that is restored there. */
export interface BundleTarget {
  put(key: string, bytes: Uint8Array): Promise<void>;
  /** Restores the checkpoint whose parts were put, all or nothing. */
  restore(hash: string): Promise<void>;
}
