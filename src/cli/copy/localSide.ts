import { constants, type Stats } from "node:fs";
import { lstat, mkdir, open, readdir, stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { CliFailure } from "../failure.ts";
import { type Entry, joinNames, type Kind, type Side } from "./side.ts";

const { O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_TRUNC, O_WRONLY } = constants;

/** This machine's files. Below `named`, the path that a person gave, no link is followed when something is written. */
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
      // A pipe that lies there must not make us wait for its reader.
      const handle = await open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | follow, 0o666).catch(
        (error: NodeJS.ErrnoException) => {
          throw error.code === "ELOOP" ? refuseLink(path) : error;
        },
      );
      try {
        // Node takes what comes in pieces, too; its types do not say so.
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
