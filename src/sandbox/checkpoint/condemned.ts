import { SluiceError } from "../../contract/index.ts";
import { toManifestKey } from "./manifest.ts";
import { toPackKey } from "./packWriter.ts";
import type { CheckpointStorage } from "./port.ts";
import type { Shelf } from "./take.ts";

const PREFIX = "condemned/";
/** Far less than any grace that a collector should give. */
const LONG_MS = 20 * 60 * 1000;

/** A mark that a collector puts on what nobody needs; the object goes when the mark is old enough. */
export interface Mark {
  /** Of the mark itself. */
  readonly mark: string;
  readonly key: string;
  readonly at: number;
}

export async function listMarks(storage: CheckpointStorage): Promise<Mark[]> {
  const marks = await storage.list(PREFIX);
  return marks.map((mark) => {
    const [time = "", ...names] = mark.slice(PREFIX.length).split("!");
    return { mark, key: names.join("/"), at: Number.parseInt(time, 36) };
  });
}

export async function condemn(storage: CheckpointStorage, key: string): Promise<void> {
  await storage.put(`${PREFIX}${Date.now().toString(36)}!${key.replaceAll("/", "!")}`, new Uint8Array());
}

/** Saves what a new checkpoint needs from a collector of another process that ran in between. */
export async function rescue(
  shelf: Shelf,
  needed: { hash: string; pieces: ReadonlySet<string>; begun: number },
): Promise<void> {
  const marks = await listMarks(shelf.storage);
  if (marks.length === 0) return;
  const packs = new Set([...needed.pieces].map((piece) => shelf.index.packOf(piece) ?? ""));
  const keys = new Set([...packs].filter(Boolean).map(toPackKey)).add(toManifestKey(needed.hash));
  const ours = marks.filter((mark) => keys.has(mark.key));
  if (ours.length === 0) return;
  if (Date.now() - needed.begun > LONG_MS) {
    const detail = "The checkpoint took so long that what it needs may have been collected. Take it again.";
    throw new SluiceError("timeout", detail);
  }
  const lost = [...shelf.index.packs()].filter(([name]) => packs.has(name));
  await shelf.index.publish(lost.map(([sha256, pieces]) => ({ sha256, pieces })));
  for (const { mark } of ours) await shelf.storage.delete(mark);
}
