import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { bundleInto } from "../support/bundle.ts";

/** A program of test/log/programs/, built once, run as a real process of its own. */
export interface Program {
  start(...args: string[]): RunningProgram;
  dispose(): Promise<void>;
}

export interface RunningProgram {
  readonly child: ChildProcess;
  /** Its output so far, line by line. */
  readonly lines: string[];
  /** Resolves with the first line that matches; fails if the program ends without one. */
  line(pattern: RegExp): Promise<string>;
  exit(): Promise<{ code: number | null; signal: NodeJS.Signals | null; stderr: string }>;
}

export async function buildProgram(name: string): Promise<Program> {
  // Below node_modules, so that the program finds its native package.
  const cache = resolve(import.meta.dirname, "../../node_modules/.cache");
  await mkdir(cache, { recursive: true });
  const folder = await mkdtemp(join(cache, "sluice-program-"));
  const file = join(folder, "program.mjs");
  const source = resolve(import.meta.dirname, "programs", `${name}.ts`);
  await bundleInto(file, source, { external: /^libsql\b/ });
  const running = new Set<ChildProcess>();
  return {
    start: (...args) => {
      const child = spawn(process.execPath, [file, ...args], { stdio: ["pipe", "pipe", "pipe"] });
      running.add(child);
      child.once("close", () => running.delete(child));
      return follow(child);
    },
    dispose: async () => {
      for (const child of running) {
        child.kill("SIGKILL");
        await once(child, "close");
      }
      await rm(folder, { recursive: true });
    },
  };
}

function follow(child: ChildProcess): RunningProgram {
  const lines: string[] = [];
  let stderr = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const reader = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  reader.setMaxListeners(0).on("line", (line) => lines.push(line));
  const closed = once(child, "close");
  return {
    child,
    lines,
    line: (pattern) =>
      new Promise((found, fail) => {
        const look = (): void => {
          const line = lines.find((candidate) => pattern.test(candidate));
          if (line === undefined) return;
          reader.off("line", look);
          found(line);
        };
        reader.on("line", look);
        look();
        void closed.then(() =>
          fail(new Error(`it ended without ${pattern}: ${lines.join("\n")}\n${stderr}`)),
        );
      }),
    exit: async () => {
      await closed;
      return { code: child.exitCode, signal: child.signalCode, stderr };
    },
  };
}
