import { chmod, mkdir, symlink, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, dirname, join, relative } from "node:path";
import type { ContainerCreateOptions, MountSettings } from "dockerode";
import { createEgress, type Egress, type EgressPrograms } from "../egress/egress.ts";
import { SOCKET_FOLDER } from "../egress/protocol.ts";
import { ignoring } from "../host/files/open-file.ts";
import { OpenFolder } from "../host/files/open-folder.ts";
import { foldersAbove, isInside, PINNED } from "../host/files/paths.ts";
import { demandDirectory, type SandboxFolder, type SandboxRecord } from "../host/folder.ts";
import type { NetworkPolicy, Owner, SandboxLimits, SandboxPaths } from "../port.ts";
import { toRequirementLabels, type Requirements } from "./container.ts";
import { toLimitConfig, type ContainerEngine, type EngineFacts } from "./engine.ts";
import { hostNode, Image } from "./image.ts";
import { toSeccompProfile } from "./seccomp.ts";

const LABELS = {
  sandbox: "sluice.sandbox",
  /** The key of the sandbox's folder, unique on this machine. */
  key: "sluice.key",
  /** The key of the parent folder of all sandboxes of one server. */
  root: "sluice.root",
  session: "sluice.session",
  owner: "sluice.owner",
} as const;

const SMALL = "rw,nosuid,nodev,mode=1777,size=64m";
/** All of /proc, because the memory of a process is a file there that its user may write. */
const READ_ONLY = ["/proc"];
/** An engine that is given read-only paths drops its own masked paths, too. */
const MASKED = [
  "/proc/acpi",
  "/proc/asound",
  "/proc/interrupts",
  "/proc/kcore",
  "/proc/keys",
  "/proc/latency_stats",
  "/proc/sched_debug",
  "/proc/scsi",
  "/proc/timer_list",
  "/proc/timer_stats",
  "/sys/devices/virtual/powercap",
  "/sys/firmware",
];

export interface DockerPrograms extends EgressPrograms {
  /** Holds the stdio of a process in a container (`exec/main.ts`). */
  readonly exec: string;
  /** Starts an agent inside a container (`exec/launch.ts`). */
  readonly launch: string;
}

export interface PlanSources {
  readonly engine: ContainerEngine;
  readonly folder: SandboxFolder;
  readonly record: DockerRecord;
  readonly rootKey: string;
  /** The network of a sandbox that asks for a full one. */
  readonly fullNetwork: string;
  readonly mounts: readonly string[];
  /** Folders of the server that no workspace may show: the one of all sandboxes, and others. */
  readonly hide: readonly string[];
  readonly programs: DockerPrograms;
}

/** The options of a sandbox's container. They hold no secret: variables come with each command. */
export async function planContainer(
  sources: PlanSources,
  requirements: Requirements,
): Promise<ContainerCreateOptions> {
  const { engine, folder, record } = sources;
  const [facts, image] = await Promise.all([engine.facts(), Image.find(engine, record.image)]);
  const user = findContainerUser(facts, record.owner);
  const host = folder.paths(record.directory);
  const etc = await makeFolders(sources, host, user);
  const egress = createContainerEgress(sources, requirements.hosts);
  const mounts = await planMounts({
    host,
    tmp: folder.tmp,
    ...etc,
    needs: [...sources.mounts, ...requirements.needs],
    hide: sources.hide,
    egress,
    image,
  });
  return {
    Image: image.id,
    Hostname: "sandbox",
    // If a container starts as another user, even its root processes have no capabilities.
    User: "0:0",
    WorkingDir: PINNED.workspace,
    Entrypoint: ["tail", "-f", "/dev/null"],
    Cmd: [],
    Labels: {
      [LABELS.sandbox]: record.id,
      [LABELS.key]: folder.key,
      [LABELS.root]: sources.rootKey,
      ...(record.session === undefined ? {} : { [LABELS.session]: record.session }),
      [LABELS.owner]: `${process.getuid?.() ?? ""}@${hostname()}`,
      ...toRequirementLabels(requirements),
    },
    HostConfig: {
      Init: true,
      AutoRemove: false,
      Mounts: mounts,
      NetworkMode: record.network.mode === "full" ? sources.fullNetwork : "none",
      CapDrop: ["ALL"],
      // Root needs them to start agents as another user. No other user gets them.
      ...(isSeparate(user) ? { CapAdd: ["SETUID", "SETGID"] } : {}),
      SecurityOpt: ["no-new-privileges", ...(facts.filters ? [`seccomp=${toSeccompProfile()}`] : [])],
      // Files in the image's own folders would not count against the disk limit.
      ReadonlyRootfs: true,
      Tmpfs: { "/run": SMALL, "/var/tmp": SMALL },
      ...(facts.labels ? {} : { ReadonlyPaths: READ_ONLY, MaskedPaths: MASKED }),
      LogConfig: { Type: "none", Config: {} },
      ...toLimitConfig(record.limits, facts),
    },
  };
}

/** Even under the full network a container has a loopback of its own, so its ports always need the egress guest. */
export function createContainerEgress(sources: PlanSources, hosts: readonly string[]): Egress {
  const { folder, record, programs } = sources;
  const policy = record.network.mode === "full" ? ({ mode: "none" } as const) : record.network;
  return createEgress({
    folder: join(folder.path, SOCKET_FOLDER),
    policy,
    extraHosts: hosts,
    ports: true,
    trust: folder.path,
    programs,
  });
}

/** The user of the processes in a container. Under a rootless engine, root inside is the folders' owner outside. */
export function findContainerUser(facts: EngineFacts, owner: Owner | undefined): string {
  const { uid, gid } = owner ?? { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  return facts.rootless ? "0:0" : `${uid}:${gid}`;
}

/** Whether the process that starts an agent has another user than the agent: it is root, the agent is not. */
export function isSeparate(user: string): boolean {
  return !user.startsWith("0:");
}

export function toStreamShortcomings(user: string): string[] {
  if (isSeparate(user)) return [];
  return ["A command may open its agent's streams again: both are root in the container."];
}

/** Makes the mounted files and folders: an agent may have removed some, and an engine would make folders as root. */
async function makeFolders(
  { folder, record }: PlanSources,
  host: SandboxPaths,
  user: string,
): Promise<Pick<MountSources, "passwd" | "group" | "session" | "empty">> {
  const { owner } = record;
  folder.makeParts(record);
  if (record.directory !== undefined) demandDirectory(record.directory);
  makeOwned(folder.path, SOCKET_FOLDER, owner);
  makeOwned(host.home, "workspace", owner);
  makeOwned(host.workspace, basename(host.outputs), owner);
  const [uid = "", gid = ""] = user.split(":");
  const root = uid === "0" ? "" : "root:x:0:0:root:/root:/bin/sh\n";
  const rootGroup = gid === "0" ? "" : "root:x:0:\n";
  return {
    passwd: await writeOpen(folder, "passwd", `${root}user:x:${uid}:${gid}:user:${PINNED.home}:/bin/sh\n`),
    group: await writeOpen(folder, "group", `${rootGroup}user:x:${gid}:\n`),
    session: await makeSession(folder),
    empty: await makeEmpty(folder),
  };
}

/** Makes a folder of the sandbox's user. Leaves a link or another user's folder alone: an agent may have put it there. */
function makeOwned(parent: string, name: string, owner: Owner | undefined): void {
  const folder = OpenFolder.openReal(parent);
  try {
    folder.make(name, { owner, mode: 0o700 }).close();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOTDIR") throw error;
  } finally {
    folder.close();
  }
}

/** Writes a file that every process inside can read, whatever the server's umask. */
async function writeOpen(folder: SandboxFolder, name: string, text: string): Promise<string> {
  const file = join(folder.path, name);
  await writeFile(file, text);
  await chmod(file, 0o644);
  return file;
}

/** Makes the folder at /mnt/session. The outputs are a link, because the agent may remove their folder and remake it. */
async function makeSession(folder: SandboxFolder): Promise<string> {
  const session = join(folder.path, "session");
  await mkdir(join(session, "uploads"), { recursive: true });
  await chmod(session, 0o755);
  await symlink(join(PINNED.workspace, "output"), join(session, "outputs")).catch(ignoring("EEXIST"));
  return session;
}

async function makeEmpty(folder: SandboxFolder): Promise<string> {
  const empty = join(folder.path, "empty");
  await mkdir(empty, { recursive: true });
  await chmod(empty, 0o555);
  return empty;
}

export interface DockerRecord extends SandboxRecord {
  readonly image: string;
  readonly network: NetworkPolicy;
  readonly limits: SandboxLimits;
  readonly shortcomings: readonly string[];
}

interface MountSources {
  readonly host: SandboxPaths;
  readonly tmp: string;
  readonly passwd: string;
  readonly group: string;
  /** The folder at /mnt/session: it has the link to the outputs, and the uploads are mounted in it. */
  readonly session: string;
  readonly needs: readonly string[];
  /** An empty folder, which covers hidden ones. */
  readonly empty: string;
  /** Folders of this host that no container sees, even if they lie in the workspace. */
  readonly hide: readonly string[];
  readonly egress: Egress;
  readonly image: Image;
}

/** Everything that a container sees of this host. The host's files never hide the image's own. */
async function planMounts(sources: MountSources): Promise<MountSettings[]> {
  const { host, image } = sources;
  const node = await image.node();
  const egress = sources.egress.needs.filter(({ host }) => node === undefined || host !== hostNode());
  const having = await image.having(sources.needs);
  const missing = outermost(sources.needs.filter((path) => !having.has(path)));
  const hidden = outermost(sources.hide).filter(
    (path) => path !== host.workspace && isInside(path, host.workspace),
  );
  return [
    toMount(host.home, PINNED.home),
    toMount(host.workspace, PINNED.workspace),
    toMount(host.workspace, "/workspace"),
    toMount(sources.session, dirname(PINNED.uploads), true),
    toMount(host.uploads, PINNED.uploads),
    toMount(sources.tmp, "/tmp"),
    toMount(sources.passwd, "/etc/passwd", true),
    toMount(sources.group, "/etc/group", true),
    ...egress.map(({ host, inside, writable }) => toMount(host, inside, !writable)),
    ...missing
      .filter((path) => !egress.some(({ inside }) => inside === path))
      .map((path) => toMount(path, path, true)),
    // Each folder above a hidden one is a mount of its own, so that an agent cannot move it and uncover the hidden one.
    ...foldersAbove(hidden, host.workspace).map((path) =>
      toMount(path, join(PINNED.workspace, relative(host.workspace, path))),
    ),
    ...hidden
      .flatMap((path) =>
        [PINNED.workspace, "/workspace"].map((root) => join(root, relative(host.workspace, path))),
      )
      // Not a tmpfs: Podman would copy the hidden files into it.
      .map((path) => toMount(sources.empty, path, true)),
  ];
}

function toMount(Source: string, Target: string, ReadOnly = false): MountSettings {
  return { Type: "bind", Source, Target, ReadOnly };
}

function outermost(paths: readonly string[]): string[] {
  return paths.filter((path) => !paths.some((other) => other !== path && isInside(path, other)));
}
