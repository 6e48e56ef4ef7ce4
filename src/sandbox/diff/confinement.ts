import { join, relative } from "node:path";
import { toDropPrefix, toOuterPath } from "../bwrap/arguments.ts";
import { detectBwrap, findBwrap } from "../bwrap/detect.ts";
import { findPrivateMounts } from "../bwrap/private-mounts.ts";
import { isOfSystem, systemMounts } from "../bwrap/system.ts";
import { OpenFolder } from "../host/files/open-folder.ts";
import { isInside } from "../host/files/paths.ts";
import type { Owner } from "../host/owner.ts";

export interface Command {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
}

/** Restricts git to the repository that it reads. */
export interface Confinement {
  /** Where a path of this host lies inside the confinement. */
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

/** For a repository whose writer has the rights of the server. */
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
    ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"],
    ["--unshare-cgroup-try", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL", "--new-session"],
    ["--die-with-parent", "--clearenv"],
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
      const variables = Object.entries({ ...env, PATH: toOuterPath(bwrap) });
      const set = variables.flatMap(([name, value]) => ["--setenv", name, value]);
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
