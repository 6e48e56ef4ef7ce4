import { existsSync } from "node:fs";
import { readProcFile } from "./procfs.ts";

const PROGRAM = "/usr/bin/prlimit";
/** Far above any value that is set by hand. */
const LOWEST_VALUE = 2 ** 50;

/**
 * A number in the resource limits of every process of a sandbox, by which its processes are found. Descendants inherit
 * it through any fork, exec, cleared environment and new kernel session. It is the limit of file locks, which Linux has
 * ignored for twenty years. A process without privileges can lower it, and so lose the mark, but not raise it again.
 */
export class LimitMark {
  /** Put before a command, it runs the command with the mark. */
  readonly prefix: readonly string[];
  readonly #line: RegExp;

  private constructor(value: number) {
    this.prefix = [PROGRAM, `--locks=${value}:${value}`, "--"];
    this.#line = new RegExp(`^Max file locks\\s+\\d+\\s+${value}\\s`, "m");
  }

  /** Undefined where the limit cannot be set or read. */
  static of(key: string): LimitMark | undefined {
    if (process.platform !== "linux" || !existsSync(PROGRAM)) return undefined;
    return new LimitMark(LOWEST_VALUE + Number.parseInt(key.slice(0, 12), 16));
  }

  async isOn(pid: number): Promise<boolean> {
    const limits = await readProcFile(`/proc/${pid}/limits`);
    return limits !== undefined && this.#line.test(limits);
  }
}
