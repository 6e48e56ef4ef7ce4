import { spawn, type ChildProcess } from "node:child_process";
import { delimiter, join, relative } from "node:path";
import { IDENTITY, NAMESPACES, toEnvironmentOptions, toOuterPath } from "../bwrap/arguments.ts";
import { detectBwrap, findBwrap, findProgram } from "../bwrap/detect.ts";
import { findPrivateMounts, toDropPrefix } from "../bwrap/prefixes.ts";
import { isOfSystem, systemMounts } from "../bwrap/system.ts";
import { OpenFolder } from "../host/files/open-folder.ts";
import { isInside } from "../host/files/paths.ts";
import type { Owner } from "../port.ts";

interface Command {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
}

export interface GitRun extends Omit<Command, "argv"> {
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

export function findGit(): string | undefined {
  return findProgram("git", (process.env["PATH"] ?? "").split(delimiter));
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
    const { argv, cwd, env } = run.confinement.wrap({ argv: [git, ...args], env: run.env, cwd: run.cwd });
    const [program = git, ...rest] = argv;
    const child = spawn(program, rest, { cwd, env, stdio: ["pipe", "pipe", "pipe"], detached: true });
    const chunks: Buffer[] = [];
    let [kept, cut, stderr] = [0, false, ""];
    const kill = (): void => killGroup(child);
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

/**
 * Ends a process with its group. The child of a bubblewrap that dies in its first moments waits for it for ever, and
 * keeps the streams open.
 */
function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // The group has ended already.
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

/** Restricts git to the repository that it reads. */
export interface Confinement {
  /** The path inside the confinement for a path of this host. */
  toInner(path: string): string;
  /** Wraps a command to run inside. Its paths, also in its variables, are inner paths. */
  wrap(command: Command): Command;
}

interface Confined {
  /** The path of the program. */
  readonly git: string;
  /** git sees these folders; it may write to `gitDir` only. */
  readonly worktree: string;
  readonly objects: string;
  readonly gitDir: string;
  /** The owner of the worktree, where that is not the server's own user. */
  readonly owner: Owner | undefined;
}

/** For a repository whose writer has the server's rights. */
export const UNCONFINED: Confinement = { toInner: (path) => path, wrap: (command) => command };

const WORKTREE = "/mnt/worktree";
const GIT_DIR = "/mnt/git-dir";
const OBJECTS = "/mnt/objects";
/** A repository can make git ask for any amount of memory. */
const MEMORY_BYTES = 2 * 1024 ** 3;

/**
 * Runs git in namespaces of its own, where it sees the system's programs, the worktree and our private folder, and has
 * neither network nor root's rights. So neither a link nor a race leads it elsewhere. Without bubblewrap it runs as the
 * owner of the worktree.
 */
export async function createConfinement(confined: Confined): Promise<Confinement> {
  const { git, owner } = confined;
  const bwrap = isOfSystem(git) ? await findWorkingBwrap() : undefined;
  if (bwrap !== undefined) return confineToNamespaces(confined, bwrap);
  if (owner === undefined) return UNCONFINED;
  const reach = await findPrivateMounts([confined.worktree, confined.objects, confined.gitDir], owner);
  const prefix = [...reach.prefix, ...toDropPrefix(owner)];
  return {
    toInner: (path) => reach.at(path),
    wrap: ({ argv, env, cwd }) => ({ argv: [...prefix, "env", "-C", cwd, ...argv], env, cwd: "/" }),
  };
}

async function confineToNamespaces(confined: Confined, bwrap: string): Promise<Confinement> {
  const { worktree, objects, gitDir, owner } = confined;
  const isApart = !isInside(objects, worktree);
  const reach = await findPrivateMounts([worktree, gitDir, ...(isApart ? [objects] : [])], owner);
  const drop = owner === undefined ? [] : toDropPrefix(owner);
  const options = [
    [...NAMESPACES, "--unshare-net", "--unshare-cgroup-try", ...IDENTITY, "--die-with-parent"],
    await systemMounts(),
    ["--dev", "/dev", "--ro-bind", reach.at(worktree), WORKTREE, "--bind", reach.at(gitDir), GIT_DIR],
    isApart ? ["--ro-bind", reach.at(objects), OBJECTS] : [],
    ["--remount-ro", "/"],
  ].flat();
  const limits = ["prlimit", `--data=${MEMORY_BYTES}`, "--core=0", "--"];
  return {
    toInner: (path) => toInnerPath(path, confined),
    wrap({ argv, env, cwd }) {
      // A process with access to a parent folder could have replaced it by a link.
      OpenFolder.openReal(worktree).close();
      const set = toEnvironmentOptions({ ...env, PATH: toOuterPath(bwrap) });
      return {
        argv: [...reach.prefix, ...drop, bwrap, ...options, ...set, "--chdir", cwd, "--", ...limits, ...argv],
        env: { PATH: toOuterPath(bwrap) },
        cwd: "/",
      };
    },
  };
}

function toInnerPath(path: string, { worktree, gitDir, objects }: Confined): string {
  for (const [host, inside] of [
    [worktree, WORKTREE],
    [gitDir, GIT_DIR],
    [objects, OBJECTS],
  ] as const) {
    if (isInside(path, host)) return join(inside, relative(host, path));
  }
  return path;
}

let working: Promise<string | undefined> | undefined;

function findWorkingBwrap(): Promise<string | undefined> {
  working ??= findBwrap().then(async (bwrap) => ((await detectBwrap(bwrap)).available ? bwrap : undefined));
  return working;
}
