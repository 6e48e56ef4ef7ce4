import { createHash } from "node:crypto";
import { mkdirSync } from "node:fs";
import {
  lstat,
  readdir,
  readFile as readFileSlowly,
  realpath as realpathSlowly,
  rm,
  rmdir,
  stat as statSlowly,
} from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import { makeFolder } from "../../disk/folder.ts";
import { access, mkdir, readFile, realpath, rename, stat, writeFile } from "../../disk/sync-files.ts";
import {
  DamagedSandboxError,
  type ListedSandbox,
  type NetworkPolicy,
  type Owner,
  type SandboxClaim,
  type SandboxLimits,
  type SandboxPaths,
  type SandboxSpec,
} from "../port.ts";
import { makeFolders, OpenFolder } from "./files/open-folder.ts";
import { isInside } from "./files/paths.ts";
import { removeTree } from "./files/remove-tree.ts";
import type { ControllerPaths } from "./processes/controllers.ts";
import { readMoment, type Moment } from "./processes/procfs.ts";

const RECORD = "sandbox.json";
/** After this time a folder without a record counts as left behind. Before that, its sandbox may be in the making. */
const MAKING_MS = 10_000;

/** The record of a sandbox on disk, read after a restart of the server. */
export interface SandboxRecord {
  readonly version: 1;
  readonly id: string;
  readonly provider: string;
  readonly session?: string;
  /** A time before the start of the sandbox's first process; undefined where the kernel does not tell starts. */
  readonly since?: Moment;
  readonly directory?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** The path of the control group with the sandbox's processes, where the server may make one. */
  readonly cgroup?: string;
  /** The control groups that enforce the limits. */
  readonly controllers?: ControllerPaths;
  readonly limits?: SandboxLimits;
  readonly network?: NetworkPolicy;
  /** The user of the sandbox's processes, where it is not the server's own. */
  readonly owner?: Owner;
  /** Set where we made the folder for outputs in a client's directory, and remove it again. */
  readonly madeOutputs?: true;
}

/** The fields of a record that every provider fills. */
export function toRecord(
  provider: string,
  { id, session, env }: SandboxSpec,
  directory: string | undefined,
): SandboxRecord {
  return {
    version: 1,
    id,
    provider,
    ...(session === undefined ? {} : { session }),
    ...(directory === undefined ? {} : { directory }),
    ...(env === undefined ? {} : { env }),
  };
}

/** The folder of a sandbox, with all files that the provider made for it. */
export class SandboxFolder {
  readonly path: string;
  /** Unique on this machine: the sandbox's processes carry it in their environment. */
  readonly key: string;
  /** The folder for the spools of its processes, which its agents do not see. */
  readonly spools: string;

  private constructor(path: string, claim: SandboxClaim | undefined) {
    this.path = path;
    this.key = toKey(path);
    this.spools = claim?.spools ?? join(path, "spools");
  }

  static async at(root: string, id: string, claim?: SandboxClaim): Promise<SandboxFolder> {
    return new SandboxFolder(join(await realpath(root), toFolderName(id)), claim);
  }

  get tmp(): string {
    return join(this.path, "tmp");
  }

  paths(directory: string | undefined): SandboxPaths {
    const workspace = directory ?? join(this.path, "workspace");
    return {
      workspace,
      home: join(this.path, "home"),
      uploads: join(this.path, "uploads"),
      outputs: join(workspace, "output"),
    };
  }

  async make(record: SandboxRecord): Promise<void> {
    await mkdir(this.path, { recursive: true, mode: 0o700 });
    const file = join(this.path, RECORD);
    // An agent or another program may have put a folder there, which a rename cannot replace by a file.
    if ((await stat(file).catch(() => undefined))?.isDirectory()) await rm(file, { recursive: true });
    await writeFile(`${file}.new`, `${JSON.stringify(record)}\n`, { mode: 0o600 });
    await rename(`${file}.new`, file);
    // After the record: a sandbox is found again by its record, so a folder without one must be empty.
    this.makeParts(record);
  }

  /** Removes the record last, so that a sandbox whose removal is interrupted can be found again. */
  async remove(): Promise<void> {
    const names = await readdir(this.path).catch(() => []);
    for (const name of names) if (name !== RECORD) await removeTree(join(this.path, name));
    await removeTree(this.path);
  }

  /** The moment that the sandbox began: now for a new one, from the record for one of an earlier server. */
  async since(): Promise<Pick<SandboxRecord, "since">> {
    const now = await readMoment();
    const isNew = await access(this.path).then(
      () => false,
      (error: NodeJS.ErrnoException) => error.code === "ENOENT",
    );
    const since = isNew ? now : (await this.earlierRecord())?.since;
    return since === undefined ? {} : { since };
  }

  /** Makes the agent's folders where they are missing, owned by its user. A link of the same name is not followed. */
  makeParts({ directory, owner }: SandboxRecord): void {
    mkdirSync(this.path, { recursive: true, mode: 0o700 });
    const names = ["home", "uploads", "tmp", ...(directory === undefined ? ["workspace"] : [])];
    makeFolders(this.path, names, owner);
  }

  /** Undefined where there is no record; a damaged one fails with `DamagedSandboxError`. */
  async record(): Promise<SandboxRecord | undefined> {
    const file = join(this.path, RECORD);
    const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined;
      if (error.code === "EISDIR") return "";
      throw error;
    });
    const record = text === undefined ? undefined : parseRecord(text);
    if (text === undefined || record) return record;
    throw new DamagedSandboxError(`the record of a sandbox cannot be read: ${file} is damaged`);
  }

  /** The record of the sandbox that was made here before; undefined where it is damaged. */
  async earlierRecord(): Promise<SandboxRecord | undefined> {
    return this.record().catch((error: unknown) => {
      if (error instanceof DamagedSandboxError) return undefined;
      throw error;
    });
  }
}

/** Removes the folders of sandboxes whose making was interrupted. */
async function sweepUnmade(root: string): Promise<void> {
  for (const name of await readdir(root).catch(() => [])) {
    const folder = join(root, name);
    const [made, unmade] = await Promise.all(
      [join(folder, RECORD), folder].map((path) => stat(path).catch(() => undefined)),
    );
    // A sandbox that is being made right now has a new folder. The clock may have been set back, hence the difference.
    if (made || !unmade || Math.abs(Date.now() - unmade.mtimeMs) < MAKING_MS) continue;
    await rm(join(folder, `${RECORD}.new`), { force: true }).catch(() => {});
    // A folder with other content stays: another program made it.
    await rmdir(folder).catch(() => {});
  }
}

/** The sandboxes of this provider below a root. Folders of interrupted makings are removed first. */
export async function listSandboxes(root: string, provider: string): Promise<ListedSandbox[]> {
  await sweepUnmade(root);
  const found: ListedSandbox[] = [];
  for (const name of await readdir(root).catch(() => [])) {
    const text = await readFileSlowly(join(root, name, RECORD), "utf8").catch(() => undefined);
    const record = text === undefined ? undefined : parseRecord(text);
    if (record?.provider !== provider) continue;
    found.push({ id: record.id, ...(record.session === undefined ? {} : { session: record.session }) });
  }
  return found;
}

function parseRecord(text: string): SandboxRecord | undefined {
  try {
    const found = JSON.parse(text) as Partial<SandboxRecord> | null;
    const isOne = found?.version === 1 && typeof found.id === "string" && typeof found.provider === "string";
    return isOne ? (found as SandboxRecord) : undefined;
  } catch {
    return undefined;
  }
}

/** A folder's name for an id: unique, without characters that need quoting, and without the colon of search paths. */
export function toFolderName(id: string): string {
  const name = id.replace(/[^A-Za-z0-9_.-]|^[.-]/g, (char) => `~${Buffer.from(char).toString("hex")}`);
  if (name.length <= 100) return name;
  return `${name.slice(0, 60)}~${toKey(id, 32)}`;
}

/** The beginning of a text's hash. */
export function toKey(text: string, length = 20): string {
  return createHash("sha256").update(text).digest("hex").slice(0, length);
}

/** Makes the parent folder of all sandboxes where it is missing; returns its real path. */
export async function makeRoot(path: string): Promise<string> {
  await makeFolder(path);
  return realpath(path);
}

/** The real paths of the server's own folders, which no workspace may show: the root of all sandboxes, and others. */
export async function resolveHidden(root: string, others: readonly string[] = []): Promise<string[]> {
  return [root, ...(await Promise.all(others.map((path) => realpath(path).catch(() => path))))];
}

/** The real path of the directory that a client asked for, if any. A directory in `own`, sluice's data, is refused. */
export async function resolveDirectory(
  directory: string | undefined,
  own: readonly string[],
): Promise<string | undefined> {
  if (directory === undefined) return undefined;
  if (!isAbsolute(directory)) {
    const detail = `The directory ${directory} is relative. Give an absolute path.`;
    throw new SluiceError("invalid_request", detail);
  }
  const real = await realpathSlowly(directory).catch(() => undefined);
  if (real === undefined || !(await statSlowly(real)).isDirectory()) {
    const detail = `There is no directory ${directory} on the server. Make it, name another one, or leave it out for a private one.`;
    throw new SluiceError("invalid_request", detail, { directory });
  }
  if (own.some((path) => isInside(real, path))) {
    const detail = `The directory ${directory} belongs to sluice's own data. Name another one, or leave it out for a private one.`;
    throw new SluiceError("invalid_request", detail, { directory });
  }
  return real;
}

/** Whether a client's directory has a folder for outputs already. */
export async function hasOutputs(directory: string): Promise<boolean> {
  return (await lstat(join(directory, "output")).catch(() => undefined)) !== undefined;
}

/** Fails where the directory is no folder any more: an agent with access to a parent folder could have put a link there. */
export function demandDirectory(directory: string): void {
  try {
    OpenFolder.openReal(directory).close();
  } catch (error) {
    const detail = `The directory ${directory} is gone, or a link was put in its place. Bring it back, or make a session elsewhere.`;
    throw new SluiceError("invalid_request", detail, { directory }, { cause: error });
  }
}

/** A range of uids that no distribution assigns to users or containers. */
const FIRST_UID = 1_900_000_000;
const UIDS = 200_000_000;

/**
 * The user of a sandbox's processes when the server is root: the owner of the directory that they work in, else a user
 * of the sandbox's own. Undefined where they run as the server's user.
 */
export async function findOwner(key: string, directory: string | undefined): Promise<Owner | undefined> {
  if (process.geteuid?.() !== 0) return undefined;
  if (directory !== undefined) {
    const { uid, gid } = await stat(directory);
    return uid === 0 ? undefined : { uid, gid };
  }
  const number = createHash("sha256").update(key).digest().readUInt32BE();
  const uid = FIRST_UID + (number % UIDS);
  // If the server itself runs in a container, this uid may not exist there.
  return (await isMapped(uid)) ? { uid, gid: uid } : undefined;
}

async function isMapped(uid: number): Promise<boolean> {
  if (process.platform !== "linux") return false;
  // A failure is not caught: with an unreadable map an agent must not run as root.
  const map = await readFile("/proc/self/uid_map", "utf8");
  return map
    .split("\n")
    .map((line) => line.trim().split(/\s+/).map(Number))
    .some(([first = 0, , count = 0]) => uid >= first && uid < first + count);
}
