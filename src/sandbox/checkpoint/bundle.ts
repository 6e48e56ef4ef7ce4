import { SluiceError } from "../../contract/index.ts";
import type { BundleTarget, CheckpointBundle } from "./bundle-port.ts";
import { record, untilRecorded } from "./collect.ts";
import { DEFAULT_EXCLUDES, toPatterns } from "./exclusion.ts";
import { parseManifest, readEntries, toManifestKey, toPieces, type ManifestRoot } from "./manifest.ts";
import type { CheckpointInfo, CheckpointOptions, CheckpointStorage, CheckpointTaken } from "./port.ts";
import type { CheckpointStore } from "./records.ts";
import { ContentIndex, PieceReader } from "./storage/content-index.ts";
import { isSha256, PackWriter, parsePack, sha256, toPackKey } from "./storage/pack.ts";
import { publish } from "./take.ts";

const ROOTS = new Set(["workspace", "home"]);
/** The most content that one checkpoint of another machine may bring. */
const MOST_BYTES = 16 * 1024 * 1024 * 1024;

/**
 * Takes in a checkpoint that another machine made. Its content is either in the bundle or in the checkpoint `base`: a
 * machine that names the hash of somebody else's file does not get that file.
 */
export function adoptBundle(
  store: CheckpointStore,
  bundle: CheckpointBundle,
  options: Omit<CheckpointOptions, "roots">,
): Promise<CheckpointTaken> {
  return untilRecorded(() => adoptOnce(store, bundle, options));
}

/** Undefined where objects were collected meanwhile. */
async function adoptOnce(
  store: CheckpointStore,
  bundle: CheckpointBundle,
  options: Omit<CheckpointOptions, "roots">,
): Promise<CheckpointTaken | undefined> {
  await store.index.refresh();
  const { hash: farHash, base } = bundle;
  const manifest = parseManifest(farHash, await bundle.read(toManifestKey(farHash)));
  const foreign = [...manifest.roots.keys()].find((name) => !ROOTS.has(name));
  if (foreign !== undefined) throw forged(`it has the root ${foreign}`);
  const earlier = base === undefined ? new Set<string>() : await readPieces(store, base);
  const begun = Date.now();
  const writer = new PackWriter(store.storage, (piece) => store.index.has(piece));
  try {
    const pageNames = new Set([...manifest.roots.values()].flatMap((root) => root.pages));
    const { got, pages, bytes: brought } = await receive(bundle, writer, pageNames);
    const old = [...pageNames].filter((page) => !pages.has(page));
    if (old.some((page) => !earlier.has(page))) throw forged("a page of its manifest is missing");
    const known = await new PieceReader(store.index).readAll(old);
    const pieces = new Set(pageNames);
    const parts = new Map<string, ManifestRoot>();
    let sizeBytes = 0;
    let files = 0;
    for (const [name, root] of manifest.roots) {
      for (const entry of readEntries(root, (page) => pages.get(page) ?? known.get(page))) {
        if (entry.kind !== "file") continue;
        files += 1;
        sizeBytes += entry.size;
        for (const piece of toPieces(entry)) pieces.add(piece);
      }
      parts.set(name, { pages: root.pages, exclude: toPatterns(name, options.exclude ?? DEFAULT_EXCLUDES) });
    }
    for (const piece of pieces)
      if (!got.has(piece) && !earlier.has(piece)) throw forged("the content of a file is missing");
    const { hash, objects, bytes } = await publish(store, writer, parts);
    const { parentId, comment, agent: agentType, model, sessionId, nativeSessionId } = options;
    const given = { parentId, comment, agentType, model, sessionId, nativeSessionId };
    const info = await record(store, { hash, pieces, begun }, () =>
      store.records.add({ hash, sizeBytes, ...given }),
    );
    if (info === undefined) return undefined;
    const work = {
      files,
      filesRead: files,
      bytesRead: brought,
      objectsWritten: objects + 1,
      bytesWritten: bytes,
    };
    return { info, work, unread: [] };
  } catch (error) {
    await writer.settle();
    throw error;
  }
}

/** Reads one pack after the other, each with its hashes checked, and keeps its pieces. */
async function receive(
  bundle: CheckpointBundle,
  writer: PackWriter,
  pageNames: ReadonlySet<string>,
): Promise<{ got: Set<string>; pages: Map<string, Uint8Array>; bytes: number }> {
  const got = new Set<string>();
  const pages = new Map<string, Uint8Array>();
  let bytes = 0;
  for (const name of bundle.packs) {
    if (!isSha256(name)) throw forged("a pack has no hash as its name");
    const key = toPackKey(name);
    const pack = await bundle.read(key);
    if (sha256(pack) !== name) throw forged("a pack has another hash than its name");
    for (const [piece, content] of await parsePack(key, pack)) {
      bytes += content.length;
      if (bytes > MOST_BYTES)
        throw new SluiceError("too_large", `A checkpoint has at most ${MOST_BYTES} bytes.`);
      const isPage = pageNames.has(piece);
      if (isPage) pages.set(piece, Uint8Array.from(content));
      got.add(piece);
      await writer.add({ sha256: piece, bytes: content }, { page: isPage });
    }
  }
  return { got, pages, bytes };
}

/** Gives a checkpoint to another machine, with all of its content, and has it restored there. */
export async function sendBundle(
  store: CheckpointStore,
  info: CheckpointInfo,
  target: BundleTarget,
): Promise<void> {
  const bytes = await store.storage.get(toManifestKey(info.hash));
  await store.index.refresh();
  const pieces = await readPieces(store, info.hash);
  const storage = toStorage(target);
  const writer = new PackWriter(storage, () => false);
  try {
    await new PieceReader(store.index).eachOf([...pieces], (piece, content) =>
      writer.add({ sha256: piece, bytes: Uint8Array.from(content) }),
    );
    await writer.finish();
  } finally {
    await writer.settle();
  }
  await target.put(toManifestKey(info.hash), bytes as Uint8Array);
  await target.restore(info.hash);
}

/** Every piece that a checkpoint needs: its pages and the content of its files. */
export async function readPieces(
  { storage, index }: Pick<CheckpointStore, "storage" | "index">,
  hash: string,
): Promise<Set<string>> {
  const manifest = parseManifest(hash, await storage.get(toManifestKey(hash)));
  const names = [...manifest.roots.values()].flatMap((root) => root.pages);
  const pages = await new PieceReader(index).readAll(names);
  const pieces = new Set(names);
  for (const root of manifest.roots.values())
    for (const entry of readEntries(root, (page) => pages.get(page)))
      if (entry.kind === "file") for (const piece of toPieces(entry)) pieces.add(piece);
  return pieces;
}

/** An index that counts the pieces of an earlier checkpoint as stored. */
export class BaseIndex extends ContentIndex {
  readonly #base: ReadonlySet<string>;

  constructor(storage: CheckpointStorage, cacheFolder: string, base: ReadonlySet<string>) {
    super(storage, cacheFolder);
    this.#base = base;
  }

  override has(piece: string): boolean {
    return this.#base.has(piece) || super.has(piece);
  }
}

/** A storage that only takes packs: all that a writer needs. */
function toStorage({ put }: BundleTarget): CheckpointStorage {
  return {
    put,
    putIfAbsent: async (key, bytes) => (await put(key, bytes), true),
    get: async () => undefined,
    has: async () => false,
    list: async () => [],
    delete: async () => {},
  };
}

function forged(why: string): SluiceError {
  return new SluiceError("internal", `The sandbox's machine sent a checkpoint that cannot be used: ${why}.`);
}
