import { createHash } from "node:crypto";
import { readdir, readFile as readFileSlowly, rm, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { access, mkdir, readFile, realpath, rename, stat, writeFile } from "../../disk/onTheSpot.ts";
import { DamagedSandboxError, type NetworkPolicy, type SandboxLimits, type SandboxPaths } from "../port.ts";
import type { ControllerPaths } from "./controllers.ts";
import { makeFolders } from "./open-folder.ts";
import type { Owner } from "./owner.ts";
import { readMoment, type Moment } from "./procfs.ts";
import { removeTree } from "./removeTree.ts";

const RECORD = "sandbox.json";
/** Longer than anybody takes from a folder to the record in it. */
const MAKING_MS = 10_000;

/** What has to be known of a sandbox after a restart. */
export interface SandboxRecord {
  readonly version: 1;
  readonly id: string;
  /** Who made it, and for which session. */
  readonly provider: string;
  readonly session?: string;
  /** Before any process of it began, where that is known. */
  readonly since?: Moment;
  readonly directory?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** The group that its processes are in, where there is one. */
  readonly cgroup?: string;
  /** The groups that limit them. */
  readonly controllers?: ControllerPaths;
  readonly limits?: SandboxLimits;
  readonly network?: NetworkPolicy;
  /** Who they run as, where it is not the server's own user. */
  readonly owner?: Owner;
  /** That the folder for outputs was made by us, in a directory that is not ours. */
  readonly madeOutputs?: true;
}

/** The folder of a sandbox: everything that the provider made for it. */
export class SandboxFolder {
  readonly path: string;
  /** Tells its processes from those of every other sandbox of this machine. */
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
    // A folder cannot be replaced by a file.
    if ((await stat(file).catch(() => undefined))?.isDirectory()) await rm(file, { recursive: true });
    await writeFile(`${file}.new`, `${JSON.stringify(record)}\n`, { mode: 0o600 });
    await rename(`${file}.new`, file);
    // Only now: a folder with anything in it can be found again.
    this.makeParts(record);
  }

  /** What is known of it goes last: whoever is killed meanwhile leaves something that can be found again. */
  async remove(): Promise<void> {
    const names = await readdir(this.path).catch(() => []);
    for (const name of names) if (name !== RECORD) await removeTree(join(this.path, name));
    await removeTree(this.path);
  }

  /** When its life began: now where nothing is there yet, as its record says where it is taken over. */
  async since(): Promise<Pick<SandboxRecord, "since">> {
    const now = await readMoment();
    const isNew = await access(this.path).then(
      () => false,
      (error: NodeJS.ErrnoException) => error.code === "ENOENT",
    );
    const since = isNew ? now : (await this.earlierRecord())?.since;
    return since === undefined ? {} : { since };
  }

  /** The folders that its agent has, each its user's. What stands in the place of one is not followed. */
  makeParts({ directory, owner }: SandboxRecord): void {
    makeFolders(this.path, ["home", "uploads", "tmp", ...(directory === undefined ? ["workspace"] : [])], {
      owner,
    });
  }

  /** Undefined where there is none; a damaged one fails with `DamagedSandboxError`. */
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

  /** The record of the sandbox that was made here before, as far as it can be read. */
  async earlierRecord(): Promise<SandboxRecord | undefined> {
    return this.record().catch((error: unknown) => {
      if (error instanceof DamagedSandboxError) return undefined;
      throw error;
    });
  }
}

/** Removes the folders in which a sandbox was to be made by somebody who was killed. */
async function sweepUnmade(root: string): Promise<void> {
  for (const name of await readdir(root).catch(() => [])) {
    const folder = join(root, name);
    const [made, unmade] = await Promise.all([stat(join(folder, RECORD)), stat(folder)].map(orAbsent));
    // By either clock: one that is being made right now is of this very moment.
    if (made || !unmade || Math.abs(Date.now() - unmade.mtimeMs) < MAKING_MS) continue;
    await rm(join(folder, `${RECORD}.new`), { force: true }).catch(() => {});
    // Where anything else is in it, somebody else has put it there.
    await rmdir(folder).catch(() => {});
  }
}

function orAbsent<T>(found: Promise<T>): Promise<T | undefined> {
  return found.catch(() => undefined);
}

/** The sandboxes below a root that this provider made; what was never finished is swept before. */
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

/** Different ids have different names, none of which needs quoting or splits a search path. */
export function toFolderName(id: string): string {
  const name = id.replace(/[^A-Za-z0-9_.-]|^[.-]/g, (char) => `~${Buffer.from(char).toString("hex")}`);
  if (name.length <= 100) return name;
  return `${name.slice(0, 60)}~${createHash("sha256").update(id).digest("hex").slice(0, 32)}`;
}
