import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { CheckpointStorage } from "./port.ts";

const PREFIX = "condemned/";
/** The name of a collector in place of an object's. */
const COLLECTOR = "collector/";
/** How long a collector may delete after one announcement. A taker waits twice as long for it. */
export const TURN_MS = 30_000;
const LOOK_MS = 100;
/** A collector that has not ended by then was killed. */
const KILLED_MS = 60 * 60 * 1000;

/** A collector's mark on an unneeded object, which is deleted when the mark is old enough. */
export interface Mark {
  /** The storage key of the mark itself. */
  readonly markKey: string;
  /** The storage key of the unneeded object. */
  readonly key: string;
  readonly at: number;
}

export async function listMarks(storage: CheckpointStorage): Promise<Mark[]> {
  return (await listAll(storage)).filter(({ key }) => !key.startsWith(COLLECTOR));
}

export async function mark(storage: CheckpointStorage, key: string): Promise<string> {
  const markKey = `${PREFIX}${Date.now().toString(36)}!${key.replaceAll("/", "!")}`;
  await storage.put(markKey, new Uint8Array());
  return markKey;
}

/**
 * Deletes a marked object. A new mark stays in its place for a grace: a checkpoint that found the object before must
 * learn of its end.
 */
export async function deleteMarked(storage: CheckpointStorage, { key, markKey }: Mark): Promise<void> {
  const fresh = await mark(storage, key);
  await storage.delete(key);
  if (fresh !== markKey) await storage.delete(markKey);
}

/** Announces a collector that is about to delete, while it does. */
export async function announced<T>(storage: CheckpointStorage, work: () => Promise<T>): Promise<T> {
  const key = await mark(storage, `${COLLECTOR}${randomUUID()}`);
  try {
    return await work();
  } finally {
    await storage.delete(key);
  }
}

/** Deletes the announcements of collectors that were killed. */
export async function dropAnnouncements(storage: CheckpointStorage): Promise<void> {
  for (const { key, markKey, at } of await listAll(storage))
    if (key.startsWith(COLLECTOR) && Date.now() - at > KILLED_MS) await storage.delete(markKey);
}

/**
 * The marks on these objects, after the collectors that may be deleting them have ended. A collector that begins later
 * knows the record of the caller's checkpoint.
 */
export async function settledMarks(storage: CheckpointStorage, keys: ReadonlySet<string>): Promise<Mark[]> {
  const deadline = performance.now() + 2 * TURN_MS;
  const first = await listAll(storage);
  const ours = first.filter(({ key }) => keys.has(key));
  if (ours.length === 0) return [];
  const isRunning = ({ key, at }: Mark): boolean => key.startsWith(COLLECTOR) && Date.now() - at < KILLED_MS;
  const running = new Set(first.filter(isRunning).map(({ markKey }) => markKey));
  let marks = first;
  while (marks.some(({ markKey }) => running.has(markKey)) && performance.now() < deadline) {
    await sleep(LOOK_MS);
    marks = await listAll(storage);
  }
  return marks.filter(({ key }) => keys.has(key));
}

async function listAll(storage: CheckpointStorage): Promise<Mark[]> {
  const markKeys = await storage.list(PREFIX);
  return markKeys.map((markKey) => {
    const [time = "", ...names] = markKey.slice(PREFIX.length).split("!");
    return { markKey, key: names.join("/"), at: Number.parseInt(time, 36) };
  });
}
