import type { ContainerCreateOptions } from "dockerode";
import { chmod, mkdir, symlink, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, join } from "node:path";
import { createBridge, type Bridge } from "../bridge/bridge.ts";
import { demandDirectory } from "../host/directory.ts";
import type { SandboxFolder } from "../host/folder.ts";
import { PINNED } from "../host/mapping.ts";
import { OpenFolder } from "../host/open-folder.ts";
import type { Owner } from "../host/owner.ts";
import type { SandboxPaths } from "../port.ts";
import type { ContainerEngine, EngineFacts } from "./engine.ts";
import { Image } from "./image.ts";
import { toLimitConfig } from "./limits.ts";
import { toSeccompProfile } from "./seccomp.ts";
import { toMounts, type MountSources } from "./mounts.ts";
import type { DockerPrograms } from "./programs.ts";
import type { DockerRecord } from "./record.ts";
import { toRequirementLabels, type Requirements } from "./requirements.ts";

export const LABELS = {
  sandbox: "sluice.sandbox",
  /** Of the sandbox's folder: no other sandbox of this machine has it. */
  key: "sluice.key",
  /** Of the folder that all sandboxes of one server are in. */
  root: "sluice.root",
  session: "sluice.session",
  owner: "sluice.owner",
} as const;

const SMALL = "rw,nosuid,nodev,mode=1777,size=64m";
/** All of it: the memory of a process is a file there, which whoever runs as its user could write. */
const READ_ONLY = ["/proc"];
/** An engine's own list goes when that of the read-only paths does. */
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

export interface PlanSources {
  readonly engine: ContainerEngine;
  readonly folder: SandboxFolder;
  readonly record: DockerRecord;
  readonly rootKey: string;
  /** The network of a sandbox that asks for a full one. */
  readonly fullNetwork: string;
  readonly mounts: readonly string[];
  /** The folder of all sandboxes, and others of the server's own that no workspace may show. */
  readonly hide: readonly string[];
  readonly programs: DockerPrograms;
}

/** What the container of a sandbox shall be. Nothing of it is secret: variables come with each command. */
export async function toContainerOptions(
  sources: PlanSources,
  requirements: Requirements,
): Promise<ContainerCreateOptions> {
  const { engine, folder, record } = sources;
  const [facts, image] = await Promise.all([engine.facts(), Image.find(engine, record.image)]);
  const user = toContainerUser(facts, record.owner);
  const host = folder.paths(record.directory);
  const etc = await makeFolders(sources, host, user);
  const bridge = toBridge(sources, requirements.hosts);
  const mounts = await toMounts({
    host,
    tmp: folder.tmp,
    ...etc,
    needs: [...sources.mounts, ...requirements.needs],
    hide: sources.hide,
    bridge,
    image,
  });
  return {
    Image: image.id,
    Hostname: "sandbox",
    // A container of somebody else has no capabilities at all, not even for a root that comes later.
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
      // For root, who starts agents as somebody else; nobody who is not root ever has them.
      ...(isSeparate(user) ? { CapAdd: ["SETUID", "SETGID"] } : {}),
      SecurityOpt: ["no-new-privileges", ...(facts.filters ? [`seccomp=${toSeccompProfile()}`] : [])],
      // What is written there would be weighed by nobody.
      ReadonlyRootfs: true,
      Tmpfs: { "/run": SMALL, "/var/tmp": SMALL },
      ...(facts.labels ? {} : { ReadonlyPaths: READ_ONLY, MaskedPaths: MASKED }),
      LogConfig: { Type: "none", Config: {} },
      ...toLimitConfig(record.limits, facts),
    },
  };
}

/** A container has a network of its own even where that leads everywhere, so its ports always need a bridge. */
export function toBridge(sources: PlanSources, hosts: readonly string[]): Bridge {
  const { folder, record, programs } = sources;
  const policy = record.network.mode === "full" ? ({ mode: "none" } as const) : record.network;
  return createBridge({
    folder: join(folder.path, "bridge"),
    policy,
    extraHosts: hosts,
    ports: true,
    trust: folder.path,
    programs,
  });
}

/** Under an engine of an ordinary user, root inside is that user outside: the owner of the folders. */
export function toContainerUser(facts: EngineFacts, owner: Owner | undefined): string {
  const { uid, gid } = owner ?? { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  return facts.rootless ? "0:0" : `${uid}:${gid}`;
}

/** Whether what stands between the engine and the agent can be another user than the agent. */
export function isSeparate(user: string): boolean {
  return !user.startsWith("0:");
}

export function toStreamShortcomings(user: string): string[] {
  if (isSeparate(user)) return [];
  return ["A command may open its agent's streams again: both are root in the container."];
}

/** An agent may have removed some of them, and an engine makes what is missing as root. */
async function makeFolders(
  { folder, record }: PlanSources,
  host: SandboxPaths,
  user: string,
): Promise<Pick<MountSources, "passwd" | "group" | "session" | "empty">> {
  const { owner } = record;
  await mkdir(folder.path, { recursive: true, mode: 0o700 });
  folder.makeParts(record);
  if (record.directory !== undefined) demandDirectory(record.directory);
  makeOwned(folder.path, "bridge", owner);
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

/** Never through a link that stands in its place, and never another one's: the agent may have put something there. */
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

/** For everybody inside to read, whatever the server's own mask. */
async function writeOpen(folder: SandboxFolder, name: string, text: string): Promise<string> {
  const file = join(folder.path, name);
  await writeFile(file, text);
  await chmod(file, 0o644);
  return file;
}

/** What is seen at /mnt/session. The outputs are a link: the agent may remove and make that folder as it likes. */
async function makeSession(folder: SandboxFolder): Promise<string> {
  const session = join(folder.path, "session");
  await mkdir(join(session, "uploads"), { recursive: true });
  await chmod(session, 0o755);
  await symlink(join(PINNED.workspace, "output"), join(session, "outputs")).catch(present);
  return session;
}

async function makeEmpty(folder: SandboxFolder): Promise<string> {
  const empty = join(folder.path, "empty");
  await mkdir(empty, { recursive: true });
  await chmod(empty, 0o555);
  return empty;
}

function present(error: NodeJS.ErrnoException): false {
  if (error.code !== "EEXIST") throw error;
  return false;
}
