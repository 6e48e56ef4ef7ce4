import { constants, type Stats } from "node:fs";
import { lstat, mkdir, open, readdir, stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { SluiceClientError } from "../../client/index.ts";
import { SluiceError } from "../../contract/index.ts";
import type { SessionFiles } from "../source/port.ts";
import { CliFailure } from "../terminal/failure.ts";

export type Kind = "file" | "directory" | "symlink" | "other";

export interface Entry {
  readonly name: string;
  readonly kind: Kind;
  readonly size: number;
}

/** One side of a copy: the files of this machine or of a sandbox. */
export interface Side {
  /** The kind of a path, links followed; undefined if it does not exist. */
  kind(path: string): Promise<Exclude<Kind, "symlink"> | undefined>;
  size(path: string): Promise<number>;
  /** Does not follow links. */
  list(path: string): Promise<Entry[]>;
  /** The content as a stream: a file may be larger than the memory. */
  read(path: string): Promise<AsyncIterable<Uint8Array>>;
  write(path: string, content: AsyncIterable<Uint8Array>): Promise<void>;
  /** Creates parents too; an existing folder is no error. */
  mkdir(path: string): Promise<void>;
  /** The path in messages. */
  show(path: string): string;
}

/** A path below a folder. Each name has to be a plain name, so the path cannot lead elsewhere. */
export function joinNames(folder: string, names: readonly string[]): string {
  for (const name of names) {
    if (name !== "" && name !== "." && name !== ".." && !/[/\0]/.test(name)) continue;
    throw new CliFailure(`${JSON.stringify(name)} is not the name of a file, so it was not copied.`);
  }
  if (names.length === 0) return folder;
  return [folder === "/" ? "" : folder.replace(/\/+$/, ""), ...names].join("/");
}

/** The last name of a path; undefined for "", ".", "a/.." and "/". */
export function lastName(path: string): string | undefined {
  const name = path.replace(/\/+$/, "").split("/").at(-1) ?? "";
  return ["", ".", ".."].includes(name) ? undefined : name;
}

const { O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_TRUNC, O_WRONLY } = constants;

/** The files of this machine. Writes follow a link at `named`, the path that a person gave, but no link below it. */
export function createLocalSide(named: string): Side {
  const root = resolve(named);
  const isNamed = (path: string): boolean => resolve(path) === root;
  return {
    async kind(path) {
      const found = await stat(path).catch(ignoreAbsent);
      return found && (toKind(found) as Exclude<Kind, "symlink">);
    },
    size: async (path) => (await stat(path)).size,
    async list(path) {
      const names = (await readdir(path)).sort();
      const entries = names.map(async (name): Promise<Entry | undefined> => {
        const found = await lstat(joinNames(path, [name])).catch(ignoreAbsent);
        return found && { name, kind: toKind(found), size: found.size };
      });
      return (await Promise.all(entries)).filter((entry) => entry !== undefined);
    },
    async read(path) {
      const handle = await open(path);
      return handle.createReadStream({ highWaterMark: 256 * 1024 });
    },
    async write(path, content) {
      if (isNamed(path)) await mkdir(dirname(root), { recursive: true });
      const follow = isNamed(path) ? 0 : O_NOFOLLOW;
      // Opening a pipe must not wait for its reader.
      const handle = await open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | follow, 0o666).catch(
        (error: NodeJS.ErrnoException) => {
          throw error.code === "ELOOP" ? refuseLink(path) : error;
        },
      );
      try {
        // Node also takes an async iterable; its types lack it.
        await handle.writeFile(content as unknown as Uint8Array);
      } finally {
        await handle.close();
      }
    },
    async mkdir(path) {
      if (isNamed(path)) return void (await mkdir(path, { recursive: true }));
      const found = await lstat(path).catch(ignoreAbsent);
      if (found?.isSymbolicLink()) throw refuseLink(path);
      if (!found) await mkdir(path);
      else if (!found.isDirectory()) throw new CliFailure(`${path} is there and is not a folder.`);
    },
    show: (path) => path,
  };
}

function refuseLink(path: string): CliFailure {
  return new CliFailure(`${path} is a link here, and it may lead out of the folder. Remove it first.`);
}

function ignoreAbsent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT" && error.code !== "ENOTDIR") throw error;
}

function toKind(found: Stats): Kind {
  if (found.isFile()) return "file";
  if (found.isDirectory()) return "directory";
  return found.isSymbolicLink() ? "symlink" : "other";
}

/** The files of a session's sandbox. The sandbox itself refuses paths that lead out. */
export function createSandboxSide(files: SessionFiles, session: string): Side {
  return {
    async kind(path) {
      const found = await files.stat(path).catch(ignoreNotFound);
      if (!found) return undefined;
      if (found.entryType !== "symlink") return found.entryType;
      // Only a link to a folder can be listed.
      const isFolder = await files.list(path).then(
        () => true,
        () => false,
      );
      return isFolder ? "directory" : "file";
    },
    size: async (path) => (await files.stat(path)).size,
    async list(path) {
      const entries = await files.list(path);
      return entries.map(({ name, entryType, size }) => ({ name, kind: entryType, size }));
    },
    read: (path) => files.read(path),
    write: (path, content) => files.write(path, content),
    mkdir: (path) => files.mkdir(path),
    show: (path) => `${session}:${path}`,
  };
}

function ignoreNotFound(error: unknown): undefined {
  const known = error instanceof SluiceError || error instanceof SluiceClientError;
  if (!known || error.code !== "file_not_found") throw error;
}
