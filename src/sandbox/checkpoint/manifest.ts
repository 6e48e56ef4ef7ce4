import { SluiceError } from "../../contract/index.ts";
import { splitPath } from "../host/files/open-folder.ts";
import { PIECE_BYTES } from "./content.ts";
import { corrupt, isSha256, sha256 } from "./storage/pack.ts";

/**
 * The trees of a checkpoint, by name of root. Their entries are cut into pages, which are stored as pieces: a new
 * checkpoint stores changed pages only. The manifest lists the hashes of the pages, and its own hash is its key.
 */
export interface Manifest {
  readonly roots: ReadonlyMap<string, ManifestRoot>;
}

export interface ManifestRoot {
  /** The excluded patterns; a restore never removes files that they match. */
  readonly exclude: readonly string[];
  readonly pages: readonly string[];
}

interface ManifestText {
  readonly hash: string;
  readonly bytes: Uint8Array;
}

export function toManifestKey(hash: string): string {
  return `manifests/${hash}`;
}

export function toManifest(roots: ReadonlyMap<string, ManifestRoot>): ManifestText {
  const sorted = [...roots].toSorted(([a], [b]) => (a < b ? -1 : 1));
  const bytes = Buffer.from(JSON.stringify({ version: 1, roots: Object.fromEntries(sorted) }));
  return { hash: sha256(bytes), bytes };
}

/** Checks the bytes against the hash, and their content against the format. */
export function parseManifest(hash: string, bytes: Uint8Array | undefined): Manifest {
  const key = toManifestKey(hash);
  if (bytes === undefined) throw corrupt(key, "is missing");
  if (sha256(bytes) !== hash) throw corrupt(key, "has changed since it was written");
  const value = parseJson(key, bytes) as { version?: unknown; roots?: unknown } | null;
  if (value?.version !== 1 || typeof value.roots !== "object" || value.roots === null) {
    throw corrupt(key, "is not a manifest that this version knows");
  }
  const roots = new Map<string, ManifestRoot>();
  for (const [name, root] of Object.entries(value.roots)) {
    if (!isRootName(name) || !isRoot(root)) throw corrupt(key, `has a bad root ${JSON.stringify(name)}`);
    roots.set(name, root);
  }
  return { roots };
}

/** The entries of one root, from its pages. If one of them could lead outside of the root, all are refused. */
export function readEntries(root: ManifestRoot, readPage: (sha256: string) => Uint8Array): Entry[] {
  const entries: Entry[] = [];
  const folders = new Set<string>();
  let last = "";
  for (const page of root.pages) {
    for (const entry of parsePage(page, readPage(page))) {
      const { path } = entry;
      if (path <= last) throw corrupt(page, `has ${JSON.stringify(path)} out of order`);
      const { parent } = splitPath(path);
      // The parent of an entry is a folder of the same manifest: never a symlink, never a folder outside.
      if (parent !== "" && !folders.has(parent))
        throw corrupt(page, `has no folder for ${JSON.stringify(path)}`);
      if (entry.kind === "directory") folders.add(path);
      entries.push(entry);
      last = path;
    }
  }
  return entries;
}

export function demandRootNames(roots: Readonly<Record<string, string>>): void {
  const bad = Object.keys(roots).find((name) => !isRootName(name));
  if (bad === undefined && Object.keys(roots).length > 0) return;
  const detail =
    bad === undefined ? "Name at least one root." : `${JSON.stringify(bad)} is no name for a root.`;
  throw new SluiceError("invalid_request", detail);
}

function isRootName(name: string): boolean {
  return /^[a-z][a-z0-9-]{0,40}$/.test(name);
}

function isRoot(value: unknown): value is ManifestRoot {
  if (typeof value !== "object" || value === null) return false;
  const { exclude, pages } = value as { exclude?: unknown; pages?: unknown };
  if (!Array.isArray(exclude) || !Array.isArray(pages)) return false;
  return exclude.every((pattern) => typeof pattern === "string") && pages.every(isSha256);
}

function parseJson(key: string, bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw corrupt(key, "is not JSON");
  }
}

/** One line of a page. Only files have a time, in whole milliseconds. */
export type Entry =
  | FileEntry
  | { readonly kind: "directory"; readonly path: string; readonly mode: number }
  | { readonly kind: "symlink"; readonly path: string; readonly target: string }
  /** An entry that existed and could not be read. */
  | { readonly kind: "unread"; readonly path: string };

export interface FileEntry {
  readonly kind: "file";
  readonly path: string;
  readonly mode: number;
  readonly size: number;
  readonly mtime: number;
  readonly sha256: string;
  /** Only for files of more than one piece. */
  readonly pieces?: readonly string[] | undefined;
}

/** The kept bits of a mode: without set-user-id and set-group-id. */
export const MODE_BITS = 0o1777;
const PAGE_ENTRIES = 1024;
const CUT_MASK = 127;

/**
 * Cuts sorted entries into pages. The hash of a path decides whether a page ends there, so a new file does not move the
 * borders of other pages.
 */
export function toPages(entries: readonly Entry[]): { sha256: string; bytes: Buffer }[] {
  const pages: { sha256: string; bytes: Buffer }[] = [];
  let lines: string[] = [];
  const close = (): void => {
    if (lines.length === 0) return;
    const bytes = Buffer.from(lines.join("\n"));
    pages.push({ sha256: sha256(bytes), bytes });
    lines = [];
  };
  for (const entry of entries) {
    lines.push(JSON.stringify(toRow(entry)));
    if (isCut(entry.path) || lines.length === PAGE_ENTRIES) close();
  }
  close();
  return pages;
}

function parsePage(page: string, bytes: Uint8Array): Entry[] {
  const lines = new TextDecoder().decode(bytes).split("\n");
  return lines.map((line) => {
    const entry = fromRow(parseRow(line));
    if (entry === undefined || !isInnerPath(entry.path))
      throw corrupt(page, `has a bad line ${line.slice(0, 200)}`);
    return entry;
  });
}

/** The pieces of a file; none for an empty one. */
export function toPieces(entry: FileEntry): readonly string[] {
  return entry.size === 0 ? [] : (entry.pieces ?? [entry.sha256]);
}

function toRow(entry: Entry): unknown[] {
  if (entry.kind === "directory") return ["d", entry.path, entry.mode];
  if (entry.kind === "symlink") return ["l", entry.path, entry.target];
  if (entry.kind === "unread") return ["u", entry.path];
  const { path, mode, size, mtime, sha256, pieces } = entry;
  return ["f", path, mode, size, mtime, sha256, ...(pieces ? [pieces] : [])];
}

function fromRow(row: readonly unknown[]): Entry | undefined {
  const [kind, path, third, size, mtime, hash, pieces] = row;
  if (typeof path !== "string") return undefined;
  if (kind === "u") return { kind: "unread", path };
  if (kind === "l") return isTarget(third) ? { kind: "symlink", path, target: third } : undefined;
  if (!isMode(third)) return undefined;
  if (kind === "d") return { kind: "directory", path, mode: third };
  if (kind !== "f" || !isCount(size) || !Number.isSafeInteger(mtime) || !isSha256(hash)) return undefined;
  const file = { kind, path, mode: third, size, mtime: Number(mtime), sha256: hash } as const;
  if (pieces === undefined) return size <= PIECE_BYTES ? { ...file, kind: "file" } : undefined;
  if (!Array.isArray(pieces) || !pieces.every(isSha256)) return undefined;
  return pieces.length === Math.ceil(size / PIECE_BYTES) ? { ...file, kind: "file", pieces } : undefined;
}

function parseRow(line: string): readonly unknown[] {
  try {
    const value: unknown = JSON.parse(line);
    return Array.isArray(value) ? value : [];
  } catch {
    return [];
  }
}

function isInnerPath(path: string): boolean {
  if (path.includes("\0")) return false;
  return path.split("/").every((name) => name !== "" && name !== "." && name !== "..");
}

function isTarget(value: unknown): value is string {
  return typeof value === "string" && value !== "" && !value.includes("\0");
}

function isMode(value: unknown): value is number {
  return isCount(value) && (value & ~MODE_BITS) === 0;
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

/** FNV-1a over the path. */
function isCut(path: string): boolean {
  let hash = 0x811c9dc5;
  for (let n = 0; n < path.length; n++) hash = Math.imul(hash ^ path.charCodeAt(n), 0x01000193);
  return ((hash ^ (hash >>> 15)) & CUT_MASK) === 0;
}
