import { createHash } from "node:crypto";
import { lstatSync, mkdtempSync } from "node:fs";
import { join } from "node:path";
import { chmod, rename, rm } from "../../disk/onTheSpot.ts";
import { etcState, makeEtc } from "./etc.ts";
import { findMemoryFolder } from "./memoryFolder.ts";

const making = new Map<string, Promise<string>>();

/**
 * The /etc that all sandboxes of this user with a network of their own share, read-only and in memory. One that differs,
 * because the host's own has changed, has another name. undefined where there is no place for it, or none is left.
 */
export async function findSharedEtc(
  place: string | undefined = findMemoryFolder(),
): Promise<string | undefined> {
  if (place === undefined) return undefined;
  const state = createHash("sha256")
    .update(await etcState())
    .digest("hex")
    .slice(0, 20);
  const path = join(place, `sluice-etc-${process.geteuid?.()}-${state}`);
  const work = making.get(path) ?? make(place, path);
  making.set(path, work);
  return work.finally(() => making.delete(path)).catch(() => undefined);
}

async function make(place: string, path: string): Promise<string> {
  if (isOurs(path)) return path;
  const draft = mkdtempSync(join(place, ".sluice-etc-"));
  await makeEtc(draft, { network: "own" });
  await chmod(draft, 0o755);
  // Whole or not at all; another server may have been quicker.
  await rename(draft, path).catch(() => rm(draft, { recursive: true, force: true }));
  if (isOurs(path)) return path;
  throw new Error(`${path} belongs to somebody else; remove it`);
}

/** Nobody else can have written it. */
function isOurs(path: string): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return false;
  return found.isDirectory() && found.uid === process.geteuid?.() && (found.mode & 0o022) === 0;
}
