import { corrupt } from "./corrupt.ts";
import { PIECE_BYTES } from "./readFile.ts";
import { isSha256, sha256 } from "./sha256.ts";

/** One line of a manifest. Times are of files alone, in whole milliseconds. */
export type Entry =
  | FileEntry
  | { readonly kind: "directory"; readonly path: string; readonly mode: number }
  | { readonly kind: "symlink"; readonly path: string; readonly target: string }
  /** Was there and could not be read. */
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

/** Set-user-id bits do not travel. */
export const MODE_BITS = 0o1777;
const PAGE_ENTRIES = 1024;
const CUT_MASK = 127;

/** Cuts sorted entries where a path says so, so that a new file moves no other page's borders. */
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

export function parsePage(page: string, bytes: Uint8Array): Entry[] {
  const lines = new TextDecoder().decode(bytes).split("\n");
  return lines.map((line) => {
    const entry = fromRow(parseRow(line));
    if (entry === undefined || !isInnerPath(entry.path))
      throw corrupt(page, `has a bad line ${line.slice(0, 200)}`);
    return entry;
  });
}

/** The pieces that a file is made of; an empty one of none. */
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
