import { spawn } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";
import type { Confinement } from "./confinement.ts";

export interface GitRun {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly confinement: Confinement;
  readonly signal: AbortSignal;
  readonly input?: string;
  readonly maxBytes?: number;
}

export interface GitResult {
  readonly code: number;
  readonly stdout: Buffer;
  readonly stderr: string;
  /** There was more than `maxBytes`. */
  readonly cut: boolean;
}

const MAX_BYTES = 64 * 1024 * 1024;
const MAX_STDERR = 4_096;

/** The git of this machine. Relative folders of PATH are skipped: they could lie in a workspace. */
export function findGit(): string | undefined {
  const folders = (process.env["PATH"] ?? "").split(delimiter).filter((folder) => isAbsolute(folder));
  return folders.map((folder) => join(folder, "git")).find(isRunnable);
}

/** An environment for git in which a repository cannot make it run a program. */
export function buildGitEnvironment(home: string): Record<string, string> {
  return {
    PATH: process.env["PATH"] ?? "",
    LC_ALL: "C",
    HOME: home,
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_ATTR_NOSYSTEM: "1",
    GIT_NO_REPLACE_OBJECTS: "1",
    GIT_NO_LAZY_FETCH: "1",
    GIT_OPTIONAL_LOCKS: "0",
    GIT_TERMINAL_PROMPT: "0",
  };
}

/** Runs git until it exits or has written `maxBytes`. An abort kills it and rejects with the signal's reason. */
export function runGit(git: string, args: readonly string[], run: GitRun): Promise<GitResult> {
  const { signal, input, maxBytes = MAX_BYTES } = run;
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const command = run.confinement.wrap({ argv: [git, ...args], env: run.env, cwd: run.cwd });
    const [program = git, ...rest] = command.argv;
    const { cwd, env } = command;
    const child = spawn(program, rest, { cwd, env, stdio: ["pipe", "pipe", "pipe"] });
    const chunks: Buffer[] = [];
    let [kept, cut, stderr] = [0, false, ""];
    const kill = (): void => void child.kill("SIGKILL");
    signal.addEventListener("abort", kill, { once: true });
    child.stdout.on("data", (chunk: Buffer) => {
      const part = chunk.subarray(0, maxBytes - kept);
      kept += part.length;
      chunks.push(part);
      if (part.length === chunk.length) return;
      cut = true;
      kill();
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr = (stderr + text).slice(0, MAX_STDERR);
    });
    child.stdin.on("error", () => {}).end(input ?? "");
    child.once("error", reject);
    child.once("close", (code) => {
      signal.removeEventListener("abort", kill);
      if (signal.aborted) reject(signal.reason as Error);
      else resolve({ code: code ?? 1, stdout: Buffer.concat(chunks), stderr, cut });
    });
  });
}

function isRunnable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** A path as git writes it: plain where that is safe, else in quotes with escapes. */
export function toQuoted(path: string): string {
  const escaped = escapePath(path);
  return escaped === path ? path : `"${escaped}"`;
}

export function escapePath(path: string): string {
  let text = "";
  for (const byte of Buffer.from(path)) {
    const char = String.fromCharCode(byte);
    const named = NAMED[char];
    if (named !== undefined) text += named;
    else if (byte < 0x20 || byte > 0x7e) text += `\\${byte.toString(8).padStart(3, "0")}`;
    else text += char;
  }
  return text;
}

const NAMED: Readonly<Record<string, string>> = {
  "\u0007": "\\a",
  "\b": "\\b",
  "\t": "\\t",
  "\n": "\\n",
  "\v": "\\v",
  "\f": "\\f",
  "\r": "\\r",
  '"': '\\"',
  "\\": "\\\\",
};
