import { SluiceError } from "../../contract/index.ts";
import { parsePage, type Entry } from "./page.ts";
import { corrupt } from "./corrupt.ts";
import { isSha256, sha256 } from "./sha256.ts";

/**
 * A whole tree, by name of root. Its entries are cut into pages that are pieces like any other, so a checkpoint
 * stores the pages that changed; the manifest itself lists their hashes, and its own hash names it.
 */
export interface Manifest {
  readonly roots: ReadonlyMap<string, ManifestRoot>;
}

export interface ManifestRoot {
  /** The patterns that were left out; what they match is never removed. */
  readonly exclude: readonly string[];
  readonly pages: readonly string[];
}

export interface ManifestText {
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

/** Takes nothing on trust: neither that the bytes are those of the hash, nor what they say. */
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

/** The entries of one root, from its pages; refused as a whole when any of them could lead outside. */
export function readEntries(root: ManifestRoot, readPage: (sha256: string) => Uint8Array): Entry[] {
  const entries: Entry[] = [];
  const folders = new Set<string>();
  let last = "";
  for (const page of root.pages) {
    for (const entry of parsePage(page, readPage(page))) {
      const { path } = entry;
      if (path <= last) throw corrupt(page, `has ${JSON.stringify(path)} out of order`);
      const parent = path.slice(0, Math.max(0, path.lastIndexOf("/")));
      // What is above an entry is a folder of the same manifest: never a symlink, never the world outside.
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
  throw new SluiceError(
    "invalid_request",
    bad === undefined ? "Name at least one root." : `${JSON.stringify(bad)} is no name for a root.`,
  );
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
