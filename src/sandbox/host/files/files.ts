import type { Stats } from "node:fs";
import { lstat, readdir, rmdir, type FileHandle } from "node:fs/promises";
import { basename, isAbsolute, join } from "node:path";
import { SluiceError, type Launch } from "../../../contract/index.ts";
import type { FileContent, FileEntry, OpenedFile, SandboxFiles, SandboxPaths } from "../../port.ts";
import { moveEntry } from "./copy-tree.ts";
import { withEntry, withFolder, type Found, type InFolder, type LookupOptions } from "./lookup.ts";
import { fileError, openForWriting, openRegular, readAll, readExactly, withFileErrors } from "./open-file.ts";
import { isInside, outside, toHostSpelling, toMappedPath, type Namespace } from "./paths.ts";
import { removeEntry } from "./remove-tree.ts";

/** How many entries of a folder are read in parallel. */
const AT_ONCE = 256;

interface WriteOptions {
  readonly mode?: number;
  /** The base of a relative path: the workspace by default. */
  readonly base?: string;
}

interface HostFilesOptions {
  /** The sandbox's folders by the paths that the agent sees. */
  readonly paths: SandboxPaths;
  /** The same folders on the host, where their paths differ. */
  readonly host?: SandboxPaths;
  readonly namespace: Namespace;
}

interface GivenPath {
  /** The path inside the sandbox, absolute and normalised. */
  readonly inside: string;
  /** The path that is looked up, `..` included. */
  readonly start: string;
}

/** The files of a sandbox on the host. No path leads outside of it. */
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
      const handle = await this.#openRegular(path, found);
      return readAll(handle, path).finally(() => handle.close());
    });
  }

  open(path: string): Promise<OpenedFile> {
    return this.#withEntry(path, { follow: true }, async (found) => {
      const handle = await this.#openRegular(path, found);
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
      const { owner } = this.#namespace;
      const handle = await openForWriting(entry, { given: path, owner, mode: options.mode });
      try {
        // Node takes iterables, too; its types do not say so.
        await handle.writeFile(content as Uint8Array);
      } finally {
        await handle.close();
      }
    });
  }

  /** Writes the files of a launch. A relative path begins at the home. */
  async writeLaunchFiles(files: Launch["files"] = []): Promise<void> {
    for (const { path, content, mode = 0o600 } of files) {
      await this.write(path, content, { mode, base: this.#paths.home });
    }
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
      const parsed = this.#parse(path);
      return withFolder(this.#namespace, parsed.start, { given: path }, async (folder, found) => {
        const names = (await readdir(folder.path)).sort();
        const entries: FileEntry[] = [];
        for (let at = 0; at < names.length; at += AT_ONCE) {
          const pending = names.slice(at, at + AT_ONCE).map(async (name) => {
            const stats = await lstat(folder.at(name)).catch(() => undefined);
            return stats && toEntry(join(toShownPath(parsed, path, found.path), name), stats);
          });
          entries.push(...(await Promise.all(pending)).filter((entry) => entry !== undefined));
        }
        return entries;
      }).catch((error: unknown) => {
        // The folder for outputs is promised to every agent, even before its first file.
        if ((error as NodeJS.ErrnoException).code === "ENOENT" && this.#isOutputs(path)) return [];
        throw error;
      });
    });
  }

  stat(path: string): Promise<FileEntry> {
    return this.#withEntry(path, {}, async ({ folder, name, path: found }, parsed) => {
      const stats = name === undefined ? folder.stat() : await lstat(folder.at(name));
      return toEntry(toShownPath(parsed, path, found), stats);
    });
  }

  mkdir(path: string): Promise<void> {
    return withFileErrors(path, () =>
      withFolder(this.#namespace, this.#parse(path).start, { given: path, make: true }, async () => {}),
    );
  }

  /** The folder of a path as a path of the host, without symlinks. */
  locate(path: string): Promise<string> {
    return withFileErrors(path, () =>
      withFolder(this.#namespace, this.#parse(path).start, { given: path }, async (_, { host }) => host),
    );
  }

  /** The folder that a command runs in, by its paths inside the sandbox and on the host. */
  async locateWorkFolder(path: string): Promise<{ inside: string; host: string }> {
    const host = await this.locate(path).catch((cause: unknown) => {
      if (!(cause instanceof SluiceError) || cause.code !== "file_not_found") throw cause;
      const detail = `There is no folder ${path} in the sandbox. Make it, or name another.`;
      throw new SluiceError("invalid_request", detail, {}, { cause });
    });
    return { inside: this.#parse(path).inside, host };
  }

  move(from: string, to: string, options: { overwrite?: boolean } = {}): Promise<void> {
    const overwrite = options.overwrite ?? false;
    return this.#withEntry(from, {}, async (source) => {
      const origin = this.#removable(from, source);
      await lstat(origin.folder.at(origin.name));
      await this.#withEntry(to, { make: true }, async (target) => {
        const destination = this.#removable(to, target);
        if (isInside(destination.host, origin.host) && destination.host !== origin.host)
          throw fileError("EINVAL");
        await moveEntry(origin, destination, { overwrite, given: to });
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

  #withEntry<T>(
    path: string,
    { base, ...options }: Omit<LookupOptions, "given"> & { base?: string | undefined },
    work: (found: Found, parsed: GivenPath) => Promise<T>,
  ): Promise<T> {
    return withFileErrors(path, () => {
      const parsed = this.#parse(path, base);
      const lookup = { ...options, given: path };
      return withEntry(this.#namespace, parsed.start, lookup, (found) => work(found, parsed));
    });
  }

  /** Refuses a path that by its text alone is outside; the lookup checks the rest. */
  #parse(path: string, base: string = this.#paths.workspace): GivenPath {
    const { inside, host } = toMappedPath(path, this.#paths, base, this.#host);
    const start = isAbsolute(path) ? path : `${base}/${path}`;
    // A sandbox that mounts nothing has host paths. There a pinned path is only another name, and is translated.
    const hasHostPaths = this.#namespace.respell !== undefined;
    return {
      inside,
      start: hasHostPaths && isAbsolute(path) ? toHostSpelling(path, host, this.#host) : start,
    };
  }

  #isOutputs(path: string): boolean {
    const { host } = toMappedPath(path, this.#paths, this.#paths.workspace, this.#host);
    return host === this.#host.outputs;
  }

  #openRegular(given: string, found: Found): Promise<FileHandle> {
    const { folder, name } = this.#inFolder(given, found);
    return openRegular(folder.at(name));
  }

  #inFolder(given: string, found: Found): InFolder {
    if (found.name === undefined) throw outside(given);
    return found as InFolder;
  }

  /** Refuses a mount, a hidden folder, and the parents of either. */
  #removable(given: string, found: Found): InFolder {
    const { mounts, hidden } = this.#namespace;
    const kept = [...mounts.map(({ host }) => host), ...hidden];
    if (kept.some((path) => isInside(path, found.host))) throw outside(given);
    return this.#inFolder(given, found);
  }
}

/** The path for the answer: as the caller gave it, or, if it has `..` in it, as it was found. */
function toShownPath({ inside }: GivenPath, path: string, found: string): string {
  return path.split("/").includes("..") ? found : inside;
}

function toEntry(path: string, found: Stats): FileEntry {
  return {
    path,
    name: basename(path),
    entryType: entryType(found),
    size: found.size,
    modified: Math.floor(found.mtimeMs),
    // A program can set the modification time of a file, but not the time of its change (ctime).
    version: [found.ino, found.size, found.mtimeMs, found.ctimeMs].join("-"),
  };
}

function entryType(found: Stats): FileEntry["entryType"] {
  if (found.isFile()) return "file";
  if (found.isDirectory()) return "directory";
  return found.isSymbolicLink() ? "symlink" : "other";
}
