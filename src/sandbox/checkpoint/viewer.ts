import { SluiceError, type CheckpointChange, type CheckpointEntry } from "../../contract/index.ts";
import { filesDiff } from "../diff/files-diff.ts";
import { toQuoted } from "../diff/git.ts";
import { PINNED } from "../host/files/paths.ts";
import {
  type Entry,
  type FileEntry,
  parseManifest,
  readEntries,
  toManifestKey,
  toPieces,
} from "./manifest.ts";
import type { CheckpointContents, CheckpointInfo, CheckpointPageQuery } from "./port.ts";
import type { CheckpointStore } from "./records.ts";
import { PieceReader } from "./storage/content-index.ts";
import { corrupt } from "./storage/pack.ts";

/** A larger file is not compared line by line. */
const MAX_DIFFED_BYTES = 512 * 1024;
/** The root that clients see. The agent's home, which may hold its logins, is not shown. */
const SHOWN_ROOT = "workspace";
const KEPT_TREES = 4;
const MAX_KEPT_ENTRIES = 100_000;

/** Runs work while no collection deletes objects. */
type Together = <T>(work: () => Promise<T>) => Promise<T>;

/** Opens the workspaces of checkpoints without restoring them. The newest few trees are kept in memory. */
export class ContentsReader {
  readonly #store: CheckpointStore;
  readonly #together: Together;
  readonly #trees = new Map<string, readonly Entry[]>();

  constructor(store: CheckpointStore, together: Together) {
    this.#store = store;
    this.#together = together;
  }

  async open(info: CheckpointInfo): Promise<CheckpointContents> {
    const entries = this.#trees.get(info.hash) ?? (await this.#together(() => this.#read(info.hash)));
    this.#trees.delete(info.hash);
    if (entries.length <= MAX_KEPT_ENTRIES) this.#trees.set(info.hash, entries);
    for (const [oldest] of this.#trees) {
      if (this.#trees.size <= KEPT_TREES) break;
      this.#trees.delete(oldest);
    }
    return new Contents(info, entries, (file) => this.#bytesOf(file));
  }

  async #read(hash: string): Promise<readonly Entry[]> {
    const { storage, index } = this.#store;
    const manifest = parseManifest(hash, await storage.get(toManifestKey(hash)));
    const root = manifest.roots.get(SHOWN_ROOT);
    if (!root) return [];
    await index.refresh();
    const pages = await new PieceReader(index).readAll(root.pages);
    return readEntries(root, (page) => pages.get(page));
  }

  /** The bytes, piece by piece. A slow reader keeps one pack in memory, and delays no collection. */
  async *#bytesOf(file: FileEntry): AsyncGenerator<Uint8Array> {
    let pack: { name: string; pieces: ReadonlyMap<string, Uint8Array> } | undefined;
    for (const piece of toPieces(file)) {
      pack = await this.#together(() => this.#packOf(piece, pack));
      const bytes = pack.pieces.get(piece);
      if (!bytes) throw corrupt(`the piece ${piece}`, "is in no pack");
      yield bytes;
    }
  }

  async #packOf(
    piece: string,
    held: { name: string; pieces: ReadonlyMap<string, Uint8Array> } | undefined,
  ): Promise<{ name: string; pieces: ReadonlyMap<string, Uint8Array> }> {
    if (held?.pieces.has(piece)) return held;
    const { index } = this.#store;
    if (!index.has(piece)) await index.refreshFromPacks();
    const name = index.packOf(piece);
    if (name === undefined) throw corrupt(`the piece ${piece}`, "is in no pack");
    return { name, pieces: await index.readPack(name) };
  }
}

class Contents implements CheckpointContents {
  readonly info: CheckpointInfo;
  readonly entries: readonly Entry[];
  readonly #read: (file: FileEntry) => AsyncGenerator<Uint8Array>;

  constructor(
    info: CheckpointInfo,
    entries: readonly Entry[],
    read: (file: FileEntry) => AsyncGenerator<Uint8Array>,
  ) {
    this.info = info;
    this.entries = entries;
    this.#read = read;
  }

  list(
    path: string,
    page: CheckpointPageQuery & { recursive: boolean },
  ): { entries: CheckpointEntry[]; next?: string } {
    const folder = toInner(path);
    if (folder !== "" && this.#demand(path).kind !== "directory")
      throw new SluiceError("invalid_request", `${path} is not a folder. Read it as a file.`);
    const prefix = folder === "" ? "" : `${folder}/`;
    const isIn = (entry: Entry): boolean =>
      entry.path.startsWith(prefix) && (page.recursive || !entry.path.slice(prefix.length).includes("/"));
    const { rows, next } = toPage(this.entries.filter(isIn), page, ({ path }) => path);
    return { entries: rows.map(toPublic), ...(next !== undefined && { next }) };
  }

  open(path: string): { size: number; content: AsyncIterable<Uint8Array> } {
    const entry = this.#demand(path);
    if (entry.kind === "file") return { size: entry.size, content: this.#read(entry) };
    if (entry.kind === "unread")
      throw new SluiceError("file_not_found", `${path} could not be read when the checkpoint was made.`);
    const what =
      entry.kind === "symlink"
        ? `a link to ${JSON.stringify(entry.target)}, which is not followed`
        : "a folder";
    throw new SluiceError("invalid_request", `${path} is ${what}. Name a file.`);
  }

  changes(
    to: CheckpointContents,
    page: CheckpointPageQuery & { path?: string | undefined },
  ): { changes: CheckpointChange[]; next?: string } {
    const changed = [...changesOf(this.entries, (to as Contents).entries, page.path)];
    const { rows, next } = toPage(changed, page, ({ path }) => path);
    const changes = rows.map(toPublicChange);
    return { changes, ...(next !== undefined && { next }) };
  }

  async *diff(to: CheckpointContents, { path }: { path?: string | undefined } = {}): AsyncGenerator<string> {
    const later = to as Contents;
    for (const { path: name, before, after } of changesOf(this.entries, later.entries, path)) {
      const isBig = sizeOf(before) > MAX_DIFFED_BYTES || sizeOf(after) > MAX_DIFFED_BYTES;
      const [from, now] = isBig ? [] : [await this.#textOf(before), await later.#textOf(after)];
      yield toFileDiff(name, { before, after, from, now });
    }
  }

  /** Undefined for a missing entry, null for one that is no text. */
  async #textOf(entry: Entry | undefined): Promise<string | null | undefined> {
    if (!entry) return undefined;
    if (entry.kind === "symlink") return entry.target;
    if (entry.kind !== "file") return null;
    const parts: Uint8Array[] = [];
    for await (const bytes of this.#read(entry)) parts.push(bytes);
    const bytes = Buffer.concat(parts);
    if (bytes.includes(0)) return null;
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      return null;
    }
  }

  #demand(path: string): Entry {
    const inner = toInner(path);
    const entry = this.entries.find((candidate) => candidate.path === inner);
    if (entry) return entry;
    throw new SluiceError("file_not_found", `The checkpoint ${this.info.id} has no ${path}. List its tree.`);
  }
}

interface Changed {
  readonly path: string;
  readonly before: Entry | undefined;
  readonly after: Entry | undefined;
}

/** The files and links that differ, by path. Both lists are in the order of their paths. */
function* changesOf(before: readonly Entry[], after: readonly Entry[], path?: string): Generator<Changed> {
  const inner = path === undefined ? "" : toInner(path);
  const isIn = (at: string): boolean => inner === "" || at === inner || at.startsWith(`${inner}/`);
  for (let old = 0, now = 0; old < before.length || now < after.length;) {
    const [a, b] = [before[old], after[now]];
    const isOld = a !== undefined && (b === undefined || a.path <= b.path);
    const isNow = b !== undefined && (a === undefined || b.path <= a.path);
    if (isOld) old += 1;
    if (isNow) now += 1;
    const at = (isOld ? a?.path : b?.path) ?? "";
    const [from, to] = [isOld ? toShown(a) : undefined, isNow ? toShown(b) : undefined];
    if (isIn(at) && isOther(from, to)) yield { path: at, before: from, after: to };
  }
}

/** Undefined for a folder: its files show its changes. */
function toShown(entry: Entry | undefined): Entry | undefined {
  return entry?.kind === "directory" ? undefined : entry;
}

function isOther(a: Entry | undefined, b: Entry | undefined): boolean {
  if (!a || !b) return a !== b;
  return toPrint(a) !== toPrint(b);
}

function toPrint(entry: Entry): string {
  if (entry.kind === "file") return `f ${entry.mode} ${entry.size} ${entry.sha256}`;
  return entry.kind === "symlink" ? `l ${entry.target}` : entry.kind;
}

function toPublicChange({ path, before, after }: Changed): CheckpointChange {
  const change: CheckpointChange = { path: toOuter(path), change: toChangeWord(before, after) };
  if (before) change.before = toPublic(before);
  if (after) change.after = toPublic(after);
  return change;
}

function toChangeWord(before: Entry | undefined, after: Entry | undefined): CheckpointChange["change"] {
  if (!before) return "added";
  return after ? "changed" : "removed";
}

function toFileDiff(
  path: string,
  {
    before,
    after,
    from,
    now,
  }: Omit<Changed, "path"> & { from?: string | null | undefined; now?: string | null | undefined },
): string {
  const [a, b] = [toQuoted(`a/${path}`), toQuoted(`b/${path}`)];
  const head = `diff --git ${a} ${b}\n${toModes(before, after)}`;
  if (isText(before, from) && isText(after, now))
    return head + filesDiff(from ?? undefined, now ?? undefined, path);
  const names = [before ? a : "/dev/null", after ? b : "/dev/null"];
  return `${head}Binary files ${names[0]} and ${names[1]} differ\n`;
}

function isText(entry: Entry | undefined, text: string | null | undefined): boolean {
  return entry === undefined || typeof text === "string";
}

function toModes(before: Entry | undefined, after: Entry | undefined): string {
  if (!before) return after ? `new file mode ${toMode(after)}\n` : "";
  if (!after) return `deleted file mode ${toMode(before)}\n`;
  const [old, now] = [toMode(before), toMode(after)];
  return old === now ? "" : `old mode ${old}\nnew mode ${now}\n`;
}

/** The mode as git writes it. */
function toMode(entry: Entry): string {
  if (entry.kind === "symlink") return "120000";
  return entry.kind === "file" && (entry.mode & 0o111) !== 0 ? "100755" : "100644";
}

function sizeOf(entry: Entry | undefined): number {
  return entry?.kind === "file" ? entry.size : 0;
}

/** A path in the workspace, relative to it. */
function toInner(path: string): string {
  const found = [PINNED.workspace, "/workspace"].find((root) => path === root || path.startsWith(`${root}/`));
  const inner = found === undefined ? path : path.slice(found.length);
  if (found === undefined && path.startsWith("/"))
    throw new SluiceError("invalid_request", `${path} is not in the workspace, ${PINNED.workspace}.`);
  const names = inner.split("/").filter((name) => name !== "" && name !== ".");
  if (!names.includes("..")) return names.join("/");
  throw new SluiceError("permission_denied", `${path} leads out of the workspace.`);
}

function toOuter(path: string): string {
  return `${PINNED.workspace}/${path}`;
}

function toPublic(entry: Entry): CheckpointEntry {
  const name = entry.path.slice(entry.path.lastIndexOf("/") + 1);
  const common = { path: toOuter(entry.path), name, entryType: entry.kind, size: sizeOf(entry) };
  if (entry.kind === "symlink") return { ...common, target: entry.target };
  if (entry.kind === "directory") return { ...common, mode: entry.mode };
  if (entry.kind !== "file") return common;
  const { mode, mtime, sha256 } = entry;
  return { ...common, mode, modified: mtime, sha256 };
}

/** The rows after the cursor, which is the path of the last row before. */
function toPage<Row>(
  rows: readonly Row[],
  { limit, cursor }: CheckpointPageQuery,
  pathOf: (row: Row) => string,
): { rows: readonly Row[]; next?: string } {
  const rest = cursor === undefined ? rows : rows.filter((row) => pathOf(row) > cursor);
  const page = rest.slice(0, limit);
  const last = page.at(-1);
  return rest.length > limit && last !== undefined ? { rows: page, next: pathOf(last) } : { rows: page };
}
