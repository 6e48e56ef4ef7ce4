import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { readFile, rename, writeFile } from "../disk/onTheSpot.ts";
import { SluiceError } from "../contract/index.ts";

const BLOCK_BYTES = 4_096;
const run = promisify(execFile);

/** The beginning of `out` whose disk space was given back. */
export class Forgotten {
  static #unable = false;
  readonly #folder: string;
  #through: Promise<number> | undefined;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Punches a hole up to the last whole block before `offset`; without `fallocate` it does nothing. */
  forget(offset: number): Promise<void> {
    const wanted = offset - (offset % BLOCK_BYTES);
    const through = this.#read().then((from) => (wanted > from ? this.#punch(from, wanted) : from));
    this.#through = through;
    return through.then(() => {});
  }

  /** Fails when what begins at `offset` is gone: zeros would be read in its place. */
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
    // The note comes first, but a disk too full for it needs the hole all the more.
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
