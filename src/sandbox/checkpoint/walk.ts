import { isUtf8 } from "node:buffer";
import { lstatSync, readlinkSync, type Stats } from "node:fs";
import { openAnchor } from "./anchor.ts";
import type { Exclusion } from "./exclusion.ts";
import type { Slice } from "./slice.ts";

/** Something that is in a root now. */
export type Found =
  | { readonly kind: "file"; readonly path: string; readonly stat: Stats }
  | { readonly kind: "directory"; readonly path: string; readonly stat: Stats }
  | { readonly kind: "symlink"; readonly path: string; readonly target: string };

export interface WalkOptions {
  readonly exclusion: Exclusion;
  readonly slice: Slice;
  /** `at` names it as long as the visit lasts, without a way to be led elsewhere. */
  visit(found: Found, at: string): Promise<void> | void;
  /** What is left out: excluded, of a kind that is not kept, or not to be read. */
  leave?(path: string, why: "excluded" | "special" | "unread"): void;
}

/** Folders before what is in them, names in order. */
export async function walk(root: string, options: WalkOptions): Promise<void> {
  const folders = [""];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const below = await walkFolder(root, folder, options);
    for (const path of below.toReversed()) folders.push(path);
  }
}

async function walkFolder(root: string, folder: string, options: WalkOptions): Promise<string[]> {
  const anchor = attempt(() => openAnchor(root, folder) ?? "unread");
  if (anchor === "gone") return [];
  if (anchor === "unread") {
    options.leave?.(folder, "unread");
    return [];
  }
  const below: string[] = [];
  try {
    for (const name of anchor.names().sort()) {
      if (options.slice.due) await options.slice.rest();
      const path = folder === "" ? name : `${folder}/${name}`;
      const found = options.exclusion.matches(path, name) ? "excluded" : look(root, path, anchor.at(name));
      if (found === "gone") continue;
      if (typeof found === "string") {
        options.leave?.(path, found);
        continue;
      }
      if (found.kind === "directory") below.push(path);
      await options.visit(found, anchor.at(name));
    }
  } finally {
    anchor.close();
  }
  return below;
}

function look(root: string, path: string, at: string): Found | "special" | "unread" | "gone" {
  // By the plain path, which is three times as fast: whoever swaps it gets the facts wrong, and no content by them.
  const stat = lstatSync(`${root}/${path}`, { throwIfNoEntry: false });
  // A name that is not UTF-8 cannot be said, neither here nor in a manifest.
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

/** Files come and go while they are looked at, and some are closed to us. */
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
