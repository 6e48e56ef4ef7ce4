import type { CheckpointProgress } from "./port.ts";

const EVERY_MS = 100;

/** Counts, and tells now and then. */
export class Progress {
  readonly #tell: ((progress: CheckpointProgress) => void) | undefined;
  #told = 0;
  files = 0;
  bytes = 0;
  filesRead = 0;
  bytesRead = 0;
  total: number | undefined;

  constructor(tell: ((progress: CheckpointProgress) => void) | undefined) {
    this.#tell = tell;
  }

  file(bytes: number): void {
    this.files += 1;
    this.bytes += bytes;
    if (this.#tell === undefined) return;
    const now = performance.now();
    if (now - this.#told < EVERY_MS) return;
    this.#told = now;
    this.#say();
  }

  read(bytes: number): void {
    this.filesRead += 1;
    this.bytesRead += bytes;
  }

  end(): void {
    this.#say();
  }

  #say(): void {
    const { files, bytes, total } = this;
    this.#tell?.({ files, bytes, ...(total !== undefined && { total }) });
  }
}
