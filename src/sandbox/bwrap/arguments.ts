import { randomBytes } from "node:crypto";
import { closeSync, constants, openSync, unlinkSync, writeSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import type { EgressPrograms, Mount } from "../egress/egress.ts";
import { PINNED } from "../host/files/paths.ts";
import { etcFolders, findMemoryFolder, procCovers, SYSTEM_PATH, systemMounts } from "./system.ts";

export interface BwrapContext {
  readonly bwrap: string;
  /** Folders of the server that no workspace may show: the one of all sandboxes, and others. */
  readonly hide: readonly string[];
  readonly programs: EgressPrograms | undefined;
  /** The command prefix that blocks the host's abstract sockets, if this host can block them. */
  readonly scope: readonly string[] | undefined;
}

/** How a command enters the network of its sandbox. */
export interface NetworkEntry {
  /** The command prefix before bwrap. */
  readonly prefix: readonly string[];
  /**
   * The writing end of the tie. The command inherits it, and it keeps the network until the command's last process
   * ends.
   */
  readonly tie?: number;
  readonly env: Readonly<Record<string, string>>;
  readonly mounts: readonly Mount[];
}

/** The search path of bwrap itself. Processes inside can read it, so it is not the server's own. */
export function toOuterPath(bwrap: string): string {
  return [...new Set([...SYSTEM_PATH, dirname(bwrap)])].join(delimiter);
}

/** The parts of the host that a command sees, and its settings. */
export interface CommandView {
  /** The sandbox's own folders, by paths that bwrap can reach. */
  readonly folders: Readonly<Record<"workspace" | "home" | "uploads" | "tmp" | "etc", string>>;
  /** Further files and folders. */
  readonly mounts: readonly Mount[];
  /** Paths inside that an empty folder covers. */
  readonly hidden: readonly string[];
  /**
   * The folders above the hidden paths, each mounted on itself. Otherwise an agent could move such a folder away, and
   * the next command would see its hidden content.
   */
  readonly pinned: readonly Mount[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** The size of /dev/shm. */
  readonly shmBytes: number;
  /** Whether the user inside is root on the host. */
  readonly isHostRoot: boolean;
  /** The descriptor of the file with the filter of system calls. */
  readonly seccomp: number | undefined;
  /** The descriptor of the tie's writing end. bwrap keeps it open until the last process of the command ends. */
  readonly tie: number | undefined;
}

export const NAMESPACES = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"];
export const IDENTITY = ["--uid", "1000", "--gid", "1000", "--cap-drop", "ALL", "--new-session"];

/** bwrap's options for one command of a sandbox. Its network is the one that bwrap is started in. */
export async function buildCommandOptions(view: CommandView): Promise<string[]> {
  const { folders } = view;
  return [
    [...NAMESPACES, "--unshare-cgroup-try", ...IDENTITY, "--hostname", "sandbox"],
    toEnvironmentOptions(view.env),
    await systemMounts(),
    ["--ro-bind", folders.etc, "/etc"],
    (await etcFolders()).flatMap((name) => ["--ro-bind", `/etc/${name}`, `/etc/${name}`]),
    ["--proc", "/proc"],
    await procCovers(view),
    // A writable /proc would let a process write the memory of others of its user, such as the agent.
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
    // A link and not a mount: it stays valid when the agent removes the folder and makes it again.
    ["--symlink", `${PINNED.workspace}/output`, PINNED.outputs],
    ["--remount-ro", "/", "--chdir", view.cwd],
    view.seccomp === undefined ? [] : ["--seccomp", String(view.seccomp)],
    view.tie === undefined ? [] : ["--sync-fd", String(view.tie)],
  ].flat();
}

/**
 * bwrap's options for the process that holds the network namespace. It has no /dev: to mount one, bwrap would make a
 * second user namespace. The network would then belong to the first one, which no other process can enter.
 */
export async function buildHolderOptions(env: Readonly<Record<string, string>>): Promise<string[]> {
  return [
    [...NAMESPACES, "--unshare-net", ...IDENTITY],
    toEnvironmentOptions(env),
    await systemMounts(),
    ["--remount-ro", "/", "--chdir", "/"],
  ].flat();
}

/** The options in the format of `--args`: each ends with a NUL. */
export function toArgumentBytes(options: readonly string[]): Buffer {
  return Buffer.from(options.map((option) => `${option}\0`).join(""));
}

/** Options that set only these variables, regardless of bwrap's own environment. */
export function toEnvironmentOptions(env: Readonly<Record<string, string>>): string[] {
  return ["--clearenv", ...Object.entries(env).flatMap(([name, value]) => ["--setenv", name, value])];
}

/**
 * Opens a file with these bytes for a child process to inherit and read once. The file has no name, so the kernel
 * removes it with its last descriptor.
 */
export function openUnnamedFile(folder: string, bytes: Uint8Array): number {
  const memory = findMemoryFolder();
  if (memory === undefined) return openIn(folder, bytes);
  try {
    return openIn(memory, bytes);
  } catch {
    // The memory folder may be full.
    return openIn(folder, bytes);
  }
}

function openIn(folder: string, bytes: Uint8Array): number {
  const path = join(folder, `.sluice-unnamed-${randomBytes(8).toString("hex")}`);
  const fd = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600);
  try {
    unlinkSync(path);
    // Writes at an offset: the descriptor's own position has to stay at the beginning for its reader.
    for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at, bytes.length - at, at);
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}
