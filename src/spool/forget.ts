import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { readFile, rename, writeFile } from "../disk/on-the-spot.ts";
import { SluiceError } from "../contract/index.ts";

const BLOCK_BYTES = 4_096;
const run = promisify(execFile);

/** The beginning of `out` that was given up, and its disk space freed where the system can. */
export class Forgotten {
  static #unable = false;
  readonly #folder: string;
  #through: Promise<number> | undefined;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Gives up the output before the last whole block at `offset`, and frees its space if `fallocate` exists. */
  forget(offset: number): Promise<void> {
    const wanted = offset - (offset % BLOCK_BYTES);
    const through = this.#read().then((from) => (wanted > from ? this.#punch(from, wanted) : from));
    this.#through = through;
    return through.then(() => {});
  }

  /** Throws where the bytes at `offset` were given up: they may read as zeros. */
  async demand(offset: number): Promise<void> {
    const through = await this.#read();
    if (offset >= through) return;
    const detail = `The output before byte ${through} was given up once it was in the log; read from there on.`;
    throw new SluiceError("internal", detail, { offset, through });
  }

  #read(): Promise<number> {
    this.#through ??= readFile(join(this.#folder, "forgotten"), "utf8").then(Number, () => 0);
    return this.#through;
  }

  async #punch(from: number, to: number): Promise<number> {
    const note = join(this.#folder, "forgotten");
    // The note comes first. If the disk is too full for it, the hole is made all the same.
    await writeFile(`${note}.new`, String(to), { mode: 0o600 })
      .then(() => rename(`${note}.new`, note))
      .catch(() => {});
    if (Forgotten.#unable) return to;
    const range = ["--offset", String(from), "--length", String(to - from)];
    const options = { env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin" } };
    await run("fallocate", ["--punch-hole", ...range, join(this.#folder, "out")], options).catch((error) => {
      Forgotten.#unable = (error as NodeJS.ErrnoException).code === "ENOENT";
    });
    return to;
  }
}
