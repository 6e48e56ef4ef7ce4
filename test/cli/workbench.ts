import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";

const BIN = join(import.meta.dirname, "../../bin/sluice");

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly out: string;
  readonly err: string;
}

/** An environment for `./bin/sluice`: a home, a data folder and a working folder. */
export class Workbench {
  readonly folder = mkdtempSync(join(tmpdir(), "sluice-cli-"));
  readonly data = join(this.folder, "share", "sluice");
  readonly work = join(this.folder, "work");
  readonly #children: ChildProcess[] = [];

  constructor() {
    mkdirSync(this.work);
  }

  /** Starts it; standard input is closed unless `input` is given. */
  start(
    args: readonly string[],
    options: { env?: NodeJS.ProcessEnv; argv?: readonly string[] } = {},
  ): ChildProcess {
    const [command = BIN, ...rest] = options.argv ?? [BIN, ...args];
    const child = spawn(command, rest, { cwd: this.work, env: this.env(options.env) });
    this.#children.push(child);
    return child;
  }

  async run(
    args: readonly string[],
    options: { env?: NodeJS.ProcessEnv; input?: string; argv?: readonly string[] } = {},
  ): Promise<Ended> {
    const child = this.start(args, options);
    child.stdin?.end(options.input ?? "");
    return ended(child);
  }

  env(more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
    const { PATH } = process.env;
    return { PATH, HOME: this.folder, XDG_DATA_HOME: join(this.folder, "share"), ...more };
  }

  /** Ends the processes of a failed test by their pids and removes the folders. */
  async close(): Promise<void> {
    for (const child of this.#children) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const gone = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGKILL");
      await gone;
    }
    for (const pid of this.#leftBehind()) process.kill(pid, "SIGKILL");
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Agents outlive a killed server; the folder on their command line identifies them. */
  #leftBehind(): number[] {
    return readdirSync("/proc").flatMap((name) => {
      if (!/^\d+$/.test(name)) return [];
      try {
        return readFileSync(`/proc/${name}/cmdline`, "utf8").includes(this.folder) ? [Number(name)] : [];
      } catch {
        return [];
      }
    });
  }
}

export async function ended(child: ChildProcess): Promise<Ended> {
  const exit = new Promise<[number | null, NodeJS.Signals | null]>((resolve) =>
    child.once("close", (code, signal) => resolve([code, signal])),
  );
  const [out, err, [code, signal]] = await Promise.all([read(child.stdout), read(child.stderr), exit]);
  return { code, signal, out, err };
}

/** Resolves when the output matches; fails with the whole output if the process ends before. */
export function printed(
  child: ChildProcess,
  pattern: RegExp,
  from: "stdout" | "stderr" = "stdout",
): Promise<string> {
  return new Promise((resolve, reject) => {
    let all = "";
    child[from]?.on("data", (chunk: Buffer) => {
      all += chunk.toString();
      if (pattern.test(all)) resolve(all);
    });
    child.once("close", () => reject(new Error(`it ended before it printed ${pattern}:\n${all}`)));
  });
}

export function script(...steps: unknown[]): string {
  return `#script ${JSON.stringify(steps)}`;
}

export function lines(text: string): Record<string, unknown>[] {
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

async function read(stream: NodeJS.ReadableStream | null): Promise<string> {
  return stream ? text(stream) : "";
}
