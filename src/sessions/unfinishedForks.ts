import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Owner } from "./owner.ts";

/** The forks that are being made, a file each: a crash leaves either nothing of one or a whole copy. */
export class UnfinishedForks {
  readonly #folder: string;
  readonly #owner: Owner;

  constructor(dataDir: string, owner: Owner) {
    this.#folder = join(dataDir, "forks");
    this.#owner = owner;
  }

  /** To be called before anything of the session exists. */
  async begin(session: string): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    await writeFile(this.#file(session), this.#owner.name, { mode: 0o600 });
  }

  /** It is whole, or nothing is left of it. */
  async end(session: string): Promise<void> {
    await rm(this.#file(session), { force: true });
  }

  /** Those whose maker is no more. */
  async abandoned(): Promise<string[]> {
    const found: string[] = [];
    for (const name of await readdir(this.#folder).catch(() => [])) {
      const maker = await readFile(join(this.#folder, name), "utf8").catch(() => "");
      if (this.#owner.isFree(maker)) found.push(decodeURIComponent(name));
    }
    return found;
  }

  #file(session: string): string {
    return join(this.#folder, encodeURIComponent(session));
  }
}
