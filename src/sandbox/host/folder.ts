import { createHash } from "node:crypto";
import { readdir, readFile as readFileSlowly, rm, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { access, mkdir, readFile, realpath, rename, stat, writeFile } from "../../disk/on-the-spot.ts";
import { DamagedSandboxError, type NetworkPolicy, type SandboxLimits, type SandboxPaths } from "../port.ts";
import { makeFolders } from "./files/open-folder.ts";
import { removeTree } from "./files/remove-tree.ts";
import type { Owner } from "./owner.ts";
import type { ControllerPaths } from "./processes/controllers.ts";
import { readMoment, type Moment } from "./processes/procfs.ts";

const RECORD = "sandbox.json";
/** More time than passes between the making of a folder and the writing of its record. */
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

/** The folder of a sandbox, with all files that the provider made for it. */
export class SandboxFolder {
  readonly path: string;
  /** Unique on this machine: the sandbox's processes carry it in their environment. */
  readonly key: string;

  private constructor(path: string) {
    this.path = path;
    this.key = createHash("sha256").update(path).digest("hex").slice(0, 20);
  }

  static async at(root: string, id: string): Promise<SandboxFolder> {
    return new SandboxFolder(join(await realpath(root), toFolderName(id)));
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

  /** Makes the agent's folders, owned by the agent's user. A link of the same name is not followed. */
  makeParts({ directory, owner }: SandboxRecord): void {
    makeFolders(this.path, ["home", "uploads", "tmp", ...(directory === undefined ? ["workspace"] : [])], {
      owner,
    });
  }

  /** Undefined where there is no record; a damaged one fails with `DamagedSandboxError`. */
  async record(): Promise<SandboxRecord | undefined> {
    const file = join(this.path, RECORD);
    const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined;
      if (error.code === "EISDIR") return "";
      throw error;
    });
    if (text === undefined) return undefined;
    const record = parseRecord(text);
    if (record) return record;
    throw new DamagedSandboxError(`what is known of a sandbox cannot be read: ${file} is damaged`);
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
    const [made, unmade] = await Promise.all([stat(join(folder, RECORD)), stat(folder)].map(orAbsent));
    // A sandbox that is being made right now has a new folder. The clock may have been set back, hence the difference.
    if (made || !unmade || Math.abs(Date.now() - unmade.mtimeMs) < MAKING_MS) continue;
    await rm(join(folder, `${RECORD}.new`), { force: true }).catch(() => {});
    // A folder with other content stays: another program made it.
    await rmdir(folder).catch(() => {});
  }
}

function orAbsent<T>(found: Promise<T>): Promise<T | undefined> {
  return found.catch(() => undefined);
}

/** The sandboxes of this provider below a root. Folders of interrupted makings are removed first. */
export async function listSandboxes(
  root: string,
  provider: string,
): Promise<{ id: string; session?: string }[]> {
  await sweepUnmade(root);
  const found: { id: string; session?: string }[] = [];
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
  return `${name.slice(0, 60)}~${createHash("sha256").update(id).digest("hex").slice(0, 32)}`;
}
