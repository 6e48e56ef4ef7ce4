import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

/** The environment of a sandbox's commands, in a private file. It may have secrets, so it is in no snapshot. */
export class StoredEnv {
  readonly #file: string;
  #vars: Readonly<Record<string, string>>;

  private constructor(file: string, vars: Readonly<Record<string, string>>) {
    this.#file = file;
    this.#vars = vars;
  }

  static async at(file: string): Promise<StoredEnv> {
    const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return "{}";
      throw error;
    });
    return new StoredEnv(file, JSON.parse(text) as Record<string, string>);
  }

  get vars(): Readonly<Record<string, string>> {
    return this.#vars;
  }

  async set(vars: Readonly<Record<string, string>>): Promise<void> {
    this.#vars = { ...this.#vars, ...vars };
    await mkdir(dirname(this.#file), { recursive: true, mode: 0o700 });
    await writeFile(`${this.#file}.new`, JSON.stringify(this.#vars), { mode: 0o600 });
    await rename(`${this.#file}.new`, this.#file);
  }

  remove(): Promise<void> {
    return rm(this.#file, { force: true });
  }
}
