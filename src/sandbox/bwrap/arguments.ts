import { PINNED } from "../host/mapping.ts";
import { etcFolders } from "./etc.ts";
import { procCovers, systemMounts } from "./system.ts";

export interface Mount {
  readonly host: string;
  readonly inside: string;
  readonly writable: boolean;
}

export interface CommandView {
  /** Where the sandbox's own folders are, as bwrap can reach them. */
  readonly folders: {
    readonly workspace: string;
    readonly home: string;
    readonly uploads: string;
    readonly tmp: string;
    readonly etc: string;
  };
  /** Further files and folders. */
  readonly mounts: readonly Mount[];
  /** In-sandbox paths that are covered with nothing. */
  readonly hidden: readonly string[];
  /** The folders above them, each mounted on itself: one that could be moved away would take its cover from the next command. */
  readonly pinned: readonly Mount[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** How much of the memory files may take. */
  readonly shmBytes: number;
  /** Whether the user inside is the host's root outside. */
  readonly isHostRoot: boolean;
  /** The descriptor that the filter of system calls is read from. */
  readonly seccomp: number | undefined;
  /** A descriptor that is kept open outside of the command's reach as long as anything of it lives. */
  readonly tie: number | undefined;
}

const NAMESPACES = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"];
const IDENTITY = ["--uid", "1000", "--gid", "1000", "--cap-drop", "ALL", "--new-session"];

/** bwrap's options for one command of a sandbox, whose network is the one that bwrap is started in. */
export async function toCommandOptions(view: CommandView): Promise<string[]> {
  const { folders } = view;
  return [
    [...NAMESPACES, "--unshare-cgroup-try", ...IDENTITY, "--hostname", "sandbox"],
    toEnvironmentOptions(view.env),
    await systemMounts(),
    ["--ro-bind", folders.etc, "/etc"],
    (await etcFolders()).flatMap((name) => ["--ro-bind", `/etc/${name}`, `/etc/${name}`]),
    ["--proc", "/proc"],
    await procCovers(view),
    // Nobody inside may write the memory of another process of the same user, such as the agent's.
    ["--remount-ro", "/proc"],
    ["--dev", "/dev", "--size", String(view.shmBytes), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"],
    ["--size", String(64 * 1024 * 1024), "--tmpfs", "/run"],
    ["--bind", folders.tmp, "/tmp", "--symlink", "/tmp", "/var/tmp", "--symlink", "/run", "/var/run"],
    ["--bind", folders.home, PINNED.home],
    view.mounts.flatMap(({ host, inside, writable }) => [writable ? "--bind" : "--ro-bind", host, inside]),
    ["--bind", folders.workspace, PINNED.workspace, "--bind", folders.uploads, PINNED.uploads],
    view.pinned.flatMap(({ host, inside }) => ["--bind", host, inside]),
    view.hidden.flatMap((path) => ["--tmpfs", path, "--remount-ro", path]),
    ["--symlink", PINNED.workspace, "/workspace"],
    // A link and not a mount: it still leads there when the agent has removed the folder and made it again.
    ["--symlink", `${PINNED.workspace}/output`, PINNED.outputs],
    ["--remount-ro", "/", "--chdir", view.cwd],
    view.seccomp === undefined ? [] : ["--seccomp", String(view.seccomp)],
    view.tie === undefined ? [] : ["--sync-fd", String(view.tie)],
  ].flat();
}

/**
 * For the process that only holds the network namespace. It has no /dev: for that bwrap would make a second user
 * namespace in the first one, and the network would belong to the first, which cannot be entered any more.
 */
export async function toHolderOptions(env: Readonly<Record<string, string>>): Promise<string[]> {
  return [
    ...NAMESPACES,
    "--unshare-net",
    ...IDENTITY,
    ...toEnvironmentOptions(env),
    ...(await systemMounts()),
    "--remount-ro",
    "/",
    "--chdir",
    "/",
  ];
}

/** As `--args` reads them. */
export function toArgumentBytes(options: readonly string[]): Buffer {
  return Buffer.from(options.map((option) => `${option}\0`).join(""));
}

function toEnvironmentOptions(env: Readonly<Record<string, string>>): string[] {
  return ["--clearenv", ...Object.entries(env).flatMap(([name, value]) => ["--setenv", name, value])];
}
