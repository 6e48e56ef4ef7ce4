import { randomBytes } from "node:crypto";
import { lstatSync, renameSync, type Stats } from "node:fs";
import { lstat, readdir, rmdir, type FileHandle } from "node:fs/promises";
import { basename, isAbsolute, join } from "node:path";
import { Readable } from "node:stream";
import { callbackify } from "node:util";
import { SluiceError } from "../../contract/index.ts";
import type { FileContent, FileEntry, OpenedFile, SandboxFiles, SandboxPaths } from "../port.ts";
import { copyEntry } from "./copy-tree.ts";
import { withFileErrors } from "./fileErrors.ts";
import { withEntry, withFolder, type Found, type LookupOptions } from "./lookup.ts";
import { isInside, outside, toHostSpelling, toMappedPath } from "./mapping.ts";
import type { Namespace } from "./namespace.ts";
import { createFile, fileError, openEmptied, openRegular, readUpTo } from "./open-file.ts";
import { ownerUid } from "./owner.ts";
import { removeEntry } from "./removeTree.ts";

const MAX_READ_BYTES = 512 * 1024 * 1024;
/** How many entries of a folder are looked at side by side. */
const LOOKED_AT_ONCE = 256;
/** An agent may remove what we are about to open. */
const TRIES = 5;

export interface WriteOptions {
  readonly mode?: number;
  /** What a relative path is under: the workspace unless said otherwise. */
  readonly base?: string;
}

export interface HostFilesOptions {
  /** What the agent sees. */
  readonly paths: SandboxPaths;
  /** Where that is, unless it is the same. */
  readonly host?: SandboxPaths;
  readonly namespace: Namespace;
}

/** An entry that is in a folder, and no place itself. */
type InFolder = Found & { readonly name: string };

/** A path as it was said: absolute, and where its lookup begins. */
interface Said {
  readonly path: string;
  readonly start: string;
}

/** The files of a sandbox on the host, none of them outside of it. */
export class HostFiles implements SandboxFiles {
  readonly #paths: SandboxPaths;
  readonly #host: SandboxPaths;
  readonly #namespace: Namespace;

  constructor({ paths, host = paths, namespace }: HostFilesOptions) {
    this.#paths = paths;
    this.#host = host;
    this.#namespace = namespace;
  }

  read(path: string): Promise<Uint8Array> {
    return this.#withEntry(path, { follow: true }, async (found) => {
      const handle = await openRegular(this.#inFolder(path, found).folder.at(found.name ?? ""));
      return readAll(handle, path).finally(() => handle.close());
    });
  }

  open(path: string): Promise<OpenedFile> {
    return this.#withEntry(path, { follow: true }, async (found) => {
      const handle = await openRegular(this.#inFolder(path, found).folder.at(found.name ?? ""));
      try {
        const { size } = await handle.stat();
        return { size, content: readExactly(handle, size) };
      } catch (error) {
        await handle.close();
        throw error;
      }
    });
  }

  write(path: string, content: FileContent, options: WriteOptions = {}): Promise<void> {
    const how = { follow: true, make: true, base: options.base };
    return this.#withEntry(path, how, async (found) => {
      const entry = this.#inFolder(path, found);
      const handle = await this.#openForWriting(entry, path, options.mode);
      try {
        // Node takes what comes in pieces, too; its types do not say so.
        await handle.writeFile(content as Uint8Array);
      } finally {
        await handle.close();
      }
    });
  }

  symlink(path: string, target: string): Promise<void> {
    return this.#withEntry(path, { make: true }, async (found) => {
      const { folder, name } = this.#inFolder(path, found);
      if (target.includes("\0")) throw new SluiceError("invalid_request", "A link cannot hold a NUL byte.");
      folder.link(name, target, this.#namespace.owner);
    });
  }

  list(path: string): Promise<FileEntry[]> {
    return withFileErrors(path, async () => {
      const said = this.#say(path);
      const options = { said: path };
      return withFolder(this.#namespace, said.start, options, async (folder, found) => {
        const names = (await readdir(folder.path)).sort();
        const entries: FileEntry[] = [];
        for (let at = 0; at < names.length; at += LOOKED_AT_ONCE) {
          const looked = names.slice(at, at + LOOKED_AT_ONCE).map(async (name) => {
            const stats = await lstat(folder.at(name)).catch(() => undefined);
            return stats && toEntry(join(toShownPath(said, path, found.path), name), stats);
          });
          entries.push(...(await Promise.all(looked)).filter((entry) => entry !== undefined));
        }
        return entries;
      }).catch((error: unknown) => {
        // The folder for outputs is a promise to every agent, also to one that has put nothing there.
        if ((error as NodeJS.ErrnoException).code === "ENOENT" && this.#isOutputs(path)) return [];
        throw error;
      });
    });
  }

  stat(path: string): Promise<FileEntry> {
    return this.#withEntry(path, {}, async ({ folder, name, path: found }, said) => {
      const stats = name === undefined ? folder.stat() : await lstat(folder.at(name));
      return toEntry(toShownPath(said, path, found), stats);
    });
  }

  mkdir(path: string): Promise<void> {
    return withFileErrors(path, () =>
      withFolder(this.#namespace, this.#say(path).start, { said: path, make: true }, async () => {}),
    );
  }

  /** The host folder of a path, which has no symlink in it. */
  locate(path: string): Promise<string> {
    return withFileErrors(path, () =>
      withFolder(this.#namespace, this.#say(path).start, { said: path }, async (_, { host }) => host),
    );
  }

  /** The same for a folder that a command is to run in. */
  async locateWorkFolder(path: string): Promise<string> {
    return this.locate(path).catch((cause: unknown) => {
      if (!(cause instanceof SluiceError) || cause.code !== "file_not_found") throw cause;
      const detail = `There is no folder ${path} in the sandbox. Make it, or name another.`;
      throw new SluiceError("invalid_request", detail, {}, { cause });
    });
  }

  move(from: string, to: string, options: { overwrite?: boolean } = {}): Promise<void> {
    const overwrite = options.overwrite ?? false;
    return this.#withEntry(from, {}, async (source) => {
      const origin = this.#removable(from, source);
      await lstat(origin.folder.at(origin.name));
      await this.#withEntry(to, { make: true }, async (target) => {
        const place = this.#removable(to, target);
        if (isInside(place.host, origin.host) && place.host !== origin.host) throw fileError("EINVAL");
        if (!overwrite) await demandFree(place, to);
        try {
          await renameOver(origin, place, { overwrite });
        } catch (error) {
          // The workspace may be a user's folder on another disk than the rest of the sandbox.
          if ((error as NodeJS.ErrnoException).code !== "EXDEV") throw error;
          await moveToOtherDisk(origin, place, { overwrite });
        }
      });
    });
  }

  remove(path: string, options: { recursive?: boolean } = {}): Promise<void> {
    return this.#withEntry(path, {}, async (found) => {
      const { folder, name } = this.#removable(path, found);
      const stats = await lstat(folder.at(name));
      if (stats.isDirectory() && !options.recursive) return rmdir(folder.at(name));
      return removeEntry(folder, name);
    });
  }

  async #openForWriting({ folder, name }: InFolder, said: string, mode?: number): Promise<FileHandle> {
    const path = folder.at(name);
    const { owner } = this.#namespace;
    for (let tries = 1; ; tries += 1) {
      const made = await createFile(path, mode ?? 0o666).catch(unless("EEXIST"));
      if (made !== undefined) return setUp(made, { owner, mode });
      let isLeft = false;
      const look = (found: Stats): void => {
        refuseOthers(found, said, ownerUid(owner));
        isLeft = isLeftBehind(found);
      };
      const there = await openEmptied(path, look).catch(unless("ENOENT"));
      if (there !== undefined && isLeft) return setUp(there, { owner, mode });
      if (there !== undefined) return keepModest(there, { uid: ownerUid(owner), mode });
      if (tries === TRIES) throw fileError("ENOENT");
    }
  }

  #withEntry<T>(
    path: string,
    { base, ...options }: Omit<LookupOptions, "said"> & { base?: string | undefined },
    work: (found: Found, said: Said) => Promise<T>,
  ): Promise<T> {
    return withFileErrors(path, () => {
      const said = this.#say(path, base);
      return withEntry(this.#namespace, said.start, { ...options, said: path }, (found) => work(found, said));
    });
  }

  /** Refuses by the letters alone what cannot be inside; the lookup finds out about the rest. */
  #say(path: string, base: string = this.#paths.workspace): Said {
    const { said, host } = toMappedPath(path, this.#paths, base, this.#host);
    const start = isAbsolute(path) ? path : `${base}/${path}`;
    // Where the paths are the host's own, the pinned ones are other names for them.
    const isHosts = this.#namespace.respell !== undefined;
    return {
      path: said,
      start: isHosts && isAbsolute(path) ? toHostSpelling(path, host, this.#host) : start,
    };
  }

  #isOutputs(path: string): boolean {
    const { host } = toMappedPath(path, this.#paths, this.#paths.workspace, this.#host);
    return host === this.#host.outputs;
  }

  #inFolder(said: string, found: Found): InFolder {
    if (found.name === undefined) throw outside(said);
    return found as InFolder;
  }

  /** Neither a place nor anything around one or around what is hidden. */
  #removable(said: string, found: Found): InFolder {
    const { places, hidden } = this.#namespace;
    const kept = [...places.map(({ host }) => host), ...hidden];
    if (kept.some((path) => isInside(path, found.host))) throw outside(said);
    return this.#inFolder(said, found);
  }
}

const CHUNK = 256 * 1024;

/** So many bytes of a file, which is closed behind them, or when its reader leaves, also before the first byte. */
function readExactly(handle: FileHandle, size: number): Readable {
  let position = 0;
  const close = callbackify(() => handle.close());
  const readNext = async (): Promise<Buffer | null> => {
    const chunk = Buffer.allocUnsafe(Math.min(CHUNK, size - position));
    if (chunk.length === 0) return null;
    const { bytesRead } = await handle.read(chunk, 0, chunk.length, position);
    if (bytesRead === 0) throw new Error(`The file has become shorter than the ${size} bytes that it had.`);
    position += bytesRead;
    return chunk.subarray(0, bytesRead);
  };
  return new Readable({
    highWaterMark: CHUNK,
    read() {
      readNext().then(
        (chunk) => this.push(chunk),
        (error: Error) => this.destroy(error),
      );
    },
    destroy: (error, done) => close((failed) => done(error ?? failed)),
  });
}

async function readAll(handle: FileHandle, path: string): Promise<Uint8Array> {
  const bytes = await readUpTo(handle, MAX_READ_BYTES);
  if (bytes !== undefined) return bytes;
  const { size } = await handle.stat();
  throw new SluiceError(
    "too_large",
    `${path} has ${size} bytes; at most ${MAX_READ_BYTES} are read at once.`,
  );
}

/** Whether a server that made the file was killed before it gave it away: until then it is empty. */
function isLeftBehind({ uid, size, nlink }: Stats): boolean {
  return uid === process.geteuid?.() && size === 0 && nlink === 1;
}

/** A file that we have just made. */
async function setUp(
  handle: FileHandle,
  { owner, mode }: { owner: Namespace["owner"]; mode: number | undefined },
): Promise<FileHandle> {
  try {
    if (owner !== undefined) await handle.chown(owner.uid, owner.gid);
    if (mode !== undefined) await handle.chmod(mode);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** A file that was there. The mode of one that is another user's stays; who writes to it takes its set-user-id bits away, root too. */
async function keepModest(
  handle: FileHandle,
  { uid, mode }: { uid: number | undefined; mode: number | undefined },
): Promise<FileHandle> {
  try {
    const found = await handle.stat();
    const wanted = mode !== undefined && found.uid === uid ? mode : found.mode & 0o1777;
    if ((found.mode & 0o7777) !== wanted) await handle.chmod(wanted);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** An agent can give a file of its folder another name, but not another user's content by way of us. */
function refuseOthers({ uid, nlink }: Stats, said: string, own: number | undefined): void {
  if (nlink === 1 || uid === own) return;
  const detail = `${said} is one of several names of a file that belongs to another user, so it is left alone. Remove it first.`;
  throw new SluiceError("permission_denied", detail, { path: said });
}

/** Sees to it that nothing is lost unasked where something is moved to. */
async function demandFree({ folder, name }: InFolder, said: string): Promise<void> {
  const found = lstatSync(folder.at(name), { throwIfNoEntry: false });
  if (found === undefined) return;
  const detail = `${said} exists already. Choose another name, or ask to overwrite it.`;
  throw new SluiceError("invalid_request", detail);
}

const IN_THE_WAY = new Set(["EEXIST", "EISDIR", "ENOTDIR", "ENOTEMPTY"]);

type Place = Pick<InFolder, "folder" | "name">;

/** A rename replaces a file by itself; what it does not replace goes first, if it may. */
async function renameOver(from: Place, to: Place, { overwrite }: { overwrite: boolean }): Promise<void> {
  const rename = (): void => renameSync(from.folder.at(from.name), to.folder.at(to.name));
  try {
    rename();
  } catch (error) {
    if (!overwrite || !IN_THE_WAY.has((error as NodeJS.ErrnoException).code ?? "")) throw error;
    await removeEntry(to.folder, to.name);
    rename();
  }
}

/** Under another name until it is whole. */
async function moveToOtherDisk(from: Place, to: Place, options: { overwrite: boolean }): Promise<void> {
  const copy = { folder: to.folder, name: `.sluice-move-${randomBytes(8).toString("hex")}` };
  try {
    await copyEntry(from, copy);
    await renameOver(copy, to, options);
  } catch (error) {
    await removeEntry(copy.folder, copy.name).catch(() => {});
    throw error;
  }
  await removeEntry(from.folder, from.name);
}

/** What was said is shown again; a path with `..` in it is shown as what it led to. */
function toShownPath(said: Said, path: string, found: string): string {
  return path.split("/").includes("..") ? found : said.path;
}

function toEntry(path: string, found: Stats): FileEntry {
  return {
    path,
    name: basename(path),
    entryType: entryType(found),
    size: found.size,
    modified: Math.floor(found.mtimeMs),
  };
}

function entryType(found: Stats): FileEntry["entryType"] {
  if (found.isFile()) return "file";
  if (found.isDirectory()) return "directory";
  return found.isSymbolicLink() ? "symlink" : "other";
}

function unless(code: string): (error: NodeJS.ErrnoException) => undefined {
  return (error) => {
    if (error.code !== code) throw error;
    return undefined;
  };
}
