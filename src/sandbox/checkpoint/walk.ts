import { isUtf8 } from "node:buffer";
import { lstatSync, readlinkSync, type Stats } from "node:fs";
import { mkdir, realpath } from "node:fs/promises";
import { resolve } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import { OpenFolder } from "../host/files/open-folder.ts";
import { isInside } from "../host/files/paths.ts";
import type { Slice } from "../host/time-slice.ts";
import type { Exclusion } from "./exclusion.ts";
import type { CheckpointRoots } from "./port.ts";

/** An entry of a root, as the walk found it. */
export type Found =
  | { readonly kind: "file"; readonly path: string; readonly stat: Stats }
  | { readonly kind: "directory"; readonly path: string; readonly stat: Stats }
  | { readonly kind: "symlink"; readonly path: string; readonly target: string };

interface WalkOptions {
  readonly exclusion: Exclusion;
  readonly slice: Slice;
  /** `at` is a path to the entry that no link can redirect; it is valid during the visit. */
  visit(found: Found, at: string): Promise<void> | void;
  /** A left-out entry: excluded, of an unsupported kind, or unreadable. */
  leave?(path: string, why: "excluded" | "special" | "unread"): void;
}

/** Visits every entry below a root: a folder before its content, names in order. */
export async function walk(root: string, options: WalkOptions): Promise<void> {
  const folders = [""];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const below = await walkFolder(root, folder, options);
    for (const path of below.toReversed()) folders.push(path);
  }
}

async function walkFolder(root: string, folder: string, options: WalkOptions): Promise<string[]> {
  const open = attempt(() =>
    OpenFolder.openReal(folder === "" ? root : `${root}/${folder}`, { readable: true }),
  );
  if (open === "gone") return [];
  if (open === "unread") {
    options.leave?.(folder, "unread");
    return [];
  }
  const below: string[] = [];
  try {
    for (const name of open.names().sort()) {
      if (options.slice.isOver) await options.slice.pause();
      const path = folder === "" ? name : `${folder}/${name}`;
      const found = options.exclusion.matches(path, name) ? "excluded" : look(root, path, open.at(name));
      if (found === "gone") continue;
      if (typeof found === "string") {
        options.leave?.(path, found);
        continue;
      }
      if (found.kind === "directory") below.push(path);
      await options.visit(found, open.at(name));
    }
  } finally {
    open.close();
  }
  return below;
}

function look(root: string, path: string, at: string): Found | "special" | "unread" | "gone" {
  // The plain path is three times as fast as `at`. A swapped-in link could only give wrong stats, because content is
  // read by `at`.
  const stat = lstatSync(`${root}/${path}`, { throwIfNoEntry: false });
  // U+FFFD: the name is not UTF-8, and a manifest cannot hold it.
  if (stat === undefined) return path.includes("\u{FFFD}") ? "unread" : "gone";
  if (stat.isFile()) return { kind: "file", path, stat };
  if (stat.isDirectory()) return { kind: "directory", path, stat };
  if (!stat.isSymbolicLink()) return "special";
  const target = attempt(() => readlinkSync(at, "buffer"));
  if (typeof target === "string") return target;
  return isUtf8(target) ? { kind: "symlink", path, target: target.toString() } : "unread";
}

const GONE = new Set(["ENOENT", "ENOTDIR", "EINVAL", "EISDIR", "ENXIO"]);
const CLOSED = new Set(["EACCES", "EPERM", "ELOOP", "ENAMETOOLONG"]);

/** Reads an entry that may be gone by now, or that the server may not read. */
export function attempt<T>(read: () => T): T | "gone" | "unread" {
  try {
    return read();
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    if (GONE.has(code)) return "gone";
    if (CLOSED.has(code)) return "unread";
    throw error;
  }
}

/** A root folder by its real path. */
export interface RootFolder {
  readonly name: string;
  readonly path: string;
  /** Relative paths in it that belong to other roots, or that no checkpoint may hold. */
  readonly holes: readonly string[];
}

/** Resolves the roots, and makes missing ones with `make`. `never` are host folders that no checkpoint may hold. */
export async function openRoots(
  roots: CheckpointRoots,
  options: { never: readonly string[]; make?: boolean },
): Promise<RootFolder[]> {
  const named = Object.entries(roots).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const opened: { name: string; path: string }[] = [];
  for (const [name, path] of named) {
    if (options.make) await mkdir(path, { recursive: true, mode: 0o700 });
    opened.push({ name, path: await resolveRoot(name, path) });
  }
  const never = await Promise.all(options.never.map((path) => realpath(path).catch(() => path)));
  return opened.map(({ name, path }) => {
    const others = opened.filter((other) => other.name !== name).map((other) => other.path);
    const holes = [...others, ...never].filter((other) => other !== path && isInside(other, path));
    return { name, path, holes: holes.map((hole) => hole.slice(path.length).replace(/^\//, "")) };
  });
}

/** A path below a root as people may see it: by the root's name, never by its place on the server. */
export function toShownPath({ name, path }: Pick<RootFolder, "name" | "path">, failed?: string): string {
  const below = failed?.startsWith(`${path}/`) ? failed.slice(path.length) : "";
  return below.length > LONGEST_SHOWN ? `${name}${below.slice(0, LONGEST_SHOWN)}…` : `${name}${below}`;
}

const LONGEST_SHOWN = 200;

/** Refuses a root that is a link: an agent with access to a parent folder could have put it there. */
async function resolveRoot(name: string, path: string): Promise<string> {
  const real = await realpath(path).catch(() => missing(name, path));
  if (real === resolve(path)) return real;
  const detail = `The folder ${path} for the root ${name} is a link, or lies behind one. Name it by ${real} if that is meant.`;
  throw new SluiceError("permission_denied", detail, { path });
}

function missing(name: string, path: string): never {
  throw new SluiceError("file_not_found", `The folder ${path} for the root ${name} does not exist.`, {
    path,
  });
}
