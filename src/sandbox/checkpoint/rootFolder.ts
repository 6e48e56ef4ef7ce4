import { mkdir, realpath } from "node:fs/promises";
import { resolve } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import { isInside } from "../host/mapping.ts";
import type { CheckpointRoots } from "./port.ts";

/** A root with all symlinks on the way to it resolved, and what inside of it belongs to somebody else. */
export interface RootFolder {
  readonly name: string;
  readonly path: string;
  readonly holes: readonly string[];
}

/** `never` are host folders that no checkpoint may hold. */
export async function openRoots(
  roots: CheckpointRoots,
  options: { never: readonly string[]; make?: boolean },
): Promise<RootFolder[]> {
  const named = Object.entries(roots).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const opened: { name: string; path: string }[] = [];
  for (const [name, path] of named) {
    if (options.make) await mkdir(path, { recursive: true, mode: 0o700 });
    opened.push({ name, path: await toRealPath(name, path) });
  }
  const never = await Promise.all(options.never.map((path) => realpath(path).catch(() => path)));
  return opened.map(({ name, path }) => {
    const others = opened.filter((other) => other.name !== name).map((other) => other.path);
    const holes = [...others, ...never].filter((other) => other !== path && isInside(other, path));
    return { name, path, holes: holes.map((hole) => hole.slice(path.length).replace(/^\//, "")) };
  });
}

/** An agent with a folder above a root could have put a link in the root's place. */
async function toRealPath(name: string, path: string): Promise<string> {
  const real = await realpath(path).catch(() => missing(name, path));
  if (real === resolve(path)) return real;
  const detail = `The folder ${path} for the root ${name} is a link, or lies behind one. Name it by ${real} if that is meant.`;
  throw new SluiceError("permission_denied", detail, { path });
}

function missing(name: string, path: string): never {
  throw new SluiceError("file_not_found", `The folder ${path} for the root ${name} does not exist.`, {
    path,
  });
}
