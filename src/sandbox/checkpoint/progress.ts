import type { CheckpointProgress } from "./port.ts";

const EVERY_MS = 100;

/** Counts files and bytes, and reports the counts at most every 100 ms. */
export class Progress {
  readonly #report: ((progress: CheckpointProgress) => void) | undefined;
  #reportedAt = 0;
  files = 0;
  bytes = 0;
  filesRead = 0;
  bytesRead = 0;
  total: number | undefined;

  constructor(report: ((progress: CheckpointProgress) => void) | undefined) {
    this.#report = report;
  }

  file(bytes: number): void {
    this.files += 1;
    this.bytes += bytes;
    if (this.#report === undefined) return;
    const now = performance.now();
    if (now - this.#reportedAt < EVERY_MS) return;
    this.#reportedAt = now;
    this.#reportNow();
  }

  read(bytes: number): void {
    this.filesRead += 1;
    this.bytesRead += bytes;
  }

  end(): void {
    this.#reportNow();
  }

  #reportNow(): void {
    const { files, bytes, total } = this;
    this.#report?.({ files, bytes, ...(total !== undefined && { total }) });
  }
}
