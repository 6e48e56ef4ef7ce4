import { randomUUID } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import { BaseIndex, readPieces } from "../checkpoint/bundle.ts";
import type { CheckpointInfo } from "../checkpoint/port.ts";
import type { CheckpointStore } from "../checkpoint/records.ts";
import { restoreCheckpoint } from "../checkpoint/restore/restore.ts";
import { createFolderStorage } from "../checkpoint/storage/folder.ts";
import { ContentIndex } from "../checkpoint/storage/content-index.ts";
import { isSha256 } from "../checkpoint/storage/pack.ts";
import { takeCheckpoint } from "../checkpoint/take.ts";
import { toFolderName } from "../host/folder.ts";
import type { HostSandbox } from "../port.ts";
import { Backlog, type FileChange, type WatchWarning } from "../watch/changes.ts";
import type { TreeSnapshot } from "../watch/tree.ts";
import { createWatcher, type Watcher } from "../watch/watcher.ts";

/** A watch that nobody asks for this long is stopped. Its memo stays for the next one. */
const FORSAKEN_MS = 600_000;

/** The workspaces of the sandboxes as a whole: watches, and checkpoints on their way. */
export class RunnerTrees {
  readonly #root: string;
  readonly #watches = new Map<string, TreeWatcher>();

  constructor(root: string) {
    this.#root = root;
  }

  /** Begins a watch in place of an earlier one. `at` is the head of the log at the stored state of the files. */
  async watch({ id, folders }: HostSandbox): Promise<{ watch: string; at: number | null }> {
    await this.stop(id);
    const watch = new TreeWatcher(folders.workspace, this.#file("watches", id));
    this.#watches.set(id, watch);
    return { watch: watch.id, at: await watch.start() };
  }

  watcher(id: string, watch: unknown): TreeWatcher {
    const known = this.#watches.get(id);
    if (known && known.id === watch) return known;
    throw new SluiceError("not_found", "There is no such watch here. Begin another.");
  }

  async stop(id: string): Promise<void> {
    const known = this.#watches.get(id);
    this.#watches.delete(id);
    await known?.stop();
  }

  async diff({ id, tree }: HostSandbox): Promise<{ diff: string } | undefined> {
    const scratch = this.#file("scratch", id);
    await mkdir(scratch, { recursive: true, mode: 0o700 });
    return tree?.diff?.({ scratch });
  }

  /** Makes a checkpoint in a folder of its own, without the content of the manifest `base`, where that is known. */
  async take(sandbox: HostSandbox, base: unknown): Promise<{ hash: string; packs: string[] }> {
    const { id } = sandbox;
    await this.drop(id);
    const known = await this.#readBase(id);
    const earlier = new Set(known !== undefined && known.hash === base ? known.pieces : []);
    const store = this.#store(id, earlier);
    // The record is the server's.
    const add = async (info: { hash: string; sizeBytes: number }): Promise<CheckpointInfo> =>
      toInfo(info.hash);
    const records = { add, remove: async () => false };
    const options = { roots: toRoots(sandbox) };
    const { info, pieces } = await takeCheckpoint({ ...store, records }, options);
    await this.#keepBase(id, { hash: info.hash, pieces: [...pieces] });
    const packs = await store.storage.list("packs/");
    return { hash: info.hash, packs: packs.map((key) => key.slice(key.lastIndexOf("/") + 1)) };
  }

  /** Restores the checkpoint whose objects were put into the sandbox's folder. */
  async restore(sandbox: HostSandbox, hash: string): Promise<void> {
    const { id } = sandbox;
    const store = this.#store(id, new Set());
    await store.index.refreshFromPacks();
    await restoreCheckpoint(store, toInfo(hash), { roots: toRoots(sandbox) });
    await this.#keepBase(id, { hash, pieces: [...(await readPieces(store, hash))] });
    await this.drop(id);
  }

  async read(id: string, key: string): Promise<Uint8Array> {
    const found = await createFolderStorage(this.#file("bundles", id)).get(demandKey(key));
    if (found) return found;
    throw new SluiceError("not_found", "There is no such part of a checkpoint here.");
  }

  async put(id: string, key: string, bytes: Uint8Array): Promise<void> {
    await createFolderStorage(this.#file("bundles", id)).put(demandKey(key), bytes);
  }

  async drop(id: string): Promise<void> {
    await rm(this.#file("bundles", id), { recursive: true, force: true });
  }

  async forget(id: string): Promise<void> {
    await this.stop(id);
    for (const part of ["bundles", "watches", "bases", "scratch", "checkpoint-cache"])
      await rm(this.#file(part, id), { recursive: true, force: true });
  }

  #store(id: string, base: ReadonlySet<string>): Omit<CheckpointStore, "records"> {
    const storage = createFolderStorage(this.#file("bundles", id));
    const cacheFolder = this.#file("checkpoint-cache", id);
    const index =
      base.size === 0 ? new ContentIndex(storage, cacheFolder) : new BaseIndex(storage, cacheFolder, base);
    return { storage, cacheFolder, index, never: [this.#root] };
  }

  async #readBase(id: string): Promise<{ hash: string; pieces: string[] } | undefined> {
    const text = await readFile(this.#file("bases", id), "utf8").catch(() => "");
    const [hash = "", ...pieces] = text.split("\n");
    return isSha256(hash) ? { hash, pieces } : undefined;
  }

  async #keepBase(id: string, { hash, pieces }: { hash: string; pieces: string[] }): Promise<void> {
    await replaceFile(this.#file("bases", id), [hash, ...pieces].join("\n"));
  }

  #file(part: string, id: string): string {
    return join(this.#root, part, toFolderName(id));
  }
}

function toInfo(hash: string): CheckpointInfo {
  return { id: "", hash, timestamp: "", sizeBytes: 0 };
}

function toRoots({ folders }: HostSandbox): { workspace: string; home: string } {
  return { workspace: folders.workspace, home: folders.home };
}

function demandKey(key: string): string {
  if (/^(?:packs\/[0-9a-f]{2}|manifests)\/[0-9a-f]{64}$/.test(key)) return key;
  throw new SluiceError("invalid_request", `${key} is no part of a checkpoint.`);
}

interface Memo {
  readonly at: number;
  readonly snapshot: TreeSnapshot;
}

interface WatchBatch {
  /** The number of the batch. */
  readonly at: number;
  readonly changes: readonly FileChange[];
  readonly warnings: readonly WatchWarning[];
}

/** The watch of one workspace. The last batch is kept until the next is asked for: its answer may be lost. */
class TreeWatcher {
  readonly id: string = randomUUID();
  readonly #memoFile: string;
  readonly #watcher: Watcher;
  readonly #waiting = new Backlog();
  #memo: Memo | undefined;
  #warnings: WatchWarning[] = [];
  #last: WatchBatch = { at: 0, changes: [], warnings: [] };
  #poll: AbortController | undefined;
  #forsaken: NodeJS.Timeout | undefined;

  constructor(folder: string, memoFile: string) {
    this.#memoFile = memoFile;
    this.#watcher = createWatcher({
      folder,
      real: true,
      onError: (warning) => void this.#warnings.push(warning),
    });
    this.#stir();
  }

  async start(): Promise<number | null> {
    const text = await readFile(this.#memoFile, "utf8").catch(() => "null");
    await this.#watcher.ready;
    try {
      this.#memo = (JSON.parse(text) as Memo | null) ?? undefined;
    } catch {
      this.#memo = undefined;
    }
    return this.#memo?.at ?? null;
  }

  /** Goes on from the stored state. `reported` are the changes that the server has since then. */
  async begin(reported: readonly FileChange[]): Promise<void> {
    const memo = this.#memo;
    this.#memo = undefined;
    if (memo) await this.#watcher.restore(memo.snapshot, reported);
  }

  /** The batch after number `from`, as soon as there is one, or an empty one when the signal is aborted. */
  async take(from: number, signal: AbortSignal): Promise<WatchBatch> {
    this.#stir();
    if (from < this.#last.at) return this.#last;
    const poll = new AbortController();
    this.#poll = poll;
    const either = AbortSignal.any([signal, poll.signal]);
    if (this.#waiting.size === 0) await this.#watcher.moved({ signal: either }).catch(() => {});
    this.#gather();
    if (this.#waiting.size === 0 && this.#warnings.length === 0)
      return { at: this.#last.at, changes: [], warnings: [] };
    this.#last = { at: this.#last.at + 1, changes: this.#waiting.take(), warnings: this.#warnings.splice(0) };
    return this.#last;
  }

  /** The number of the batch that completes all changes up to now. */
  async flush(): Promise<number> {
    this.#stir();
    await this.#watcher.flush();
    return this.#last.at + (this.#gather() > 0 ? 1 : 0);
  }

  /** Stores the state of the files, where the server has every change up to it. */
  async remember(head: number, seen: number): Promise<boolean> {
    if (seen !== this.#last.at || this.#gather() > 0) return false;
    const memo: Memo = { at: head, snapshot: this.#watcher.snapshot() };
    await replaceFile(this.#memoFile, JSON.stringify(memo));
    return true;
  }

  async stop(): Promise<void> {
    clearTimeout(this.#forsaken);
    await this.#watcher.stop();
  }

  #gather(): number {
    for (const change of this.#watcher.take()) this.#waiting.add(change);
    // A call that waits would not hear of changes that were taken here.
    if (this.#waiting.size > 0) this.#poll?.abort();
    return this.#waiting.size;
  }

  #stir(): void {
    clearTimeout(this.#forsaken);
    this.#forsaken = setTimeout(() => void this.stop(), FORSAKEN_MS);
  }
}

async function replaceFile(file: string, text: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const fresh = `${file}.${randomUUID()}`;
  await writeFile(fresh, text, { mode: 0o600 });
  await rename(fresh, file);
}
