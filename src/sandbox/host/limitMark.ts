import { existsSync } from "node:fs";
import { readProcFile } from "./procfs.ts";

const PROGRAM = "/usr/bin/prlimit";
/** Far above what anybody sets by hand. */
const FIRST = 2 ** 50;

/**
 * A number in the limits of every process of a sandbox. Descendants inherit it through any fork, exec, cleared
 * environment and new session. It is the limit of file locks, which Linux has not looked at for twenty years. Without
 * privileges nobody can raise it again; to lower it is the one way to lose it.
 */
export class LimitMark {
  readonly prefix: readonly string[];
  readonly #line: RegExp;

  private constructor(value: number) {
    this.prefix = [PROGRAM, `--locks=${value}:${value}`, "--"];
    this.#line = new RegExp(`^Max file locks\\s+\\d+\\s+${value}\\s`, "m");
  }

  /** undefined where the limit cannot be set or seen. */
  static of(key: string): LimitMark | undefined {
    if (process.platform !== "linux" || !existsSync(PROGRAM)) return undefined;
    return new LimitMark(FIRST + Number.parseInt(key.slice(0, 12), 16));
  }

  async isOn(pid: number): Promise<boolean> {
    const limits = await readProcFile(`/proc/${pid}/limits`);
    return limits !== undefined && this.#line.test(limits);
  }
}
