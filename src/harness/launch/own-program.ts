import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

interface OwnProgram {
  readonly path: string;
  readonly exists: boolean;
  readonly version: string;
}

/** Results by calling module. A package does not move while it runs. */
const found = new Map<string, OwnProgram>();

/** The scripted agent's file and the package's version. The other programs of sluice are built beside it. */
export function findOwnProgram(from: string = import.meta.url): OwnProgram {
  const known = found.get(from) ?? find(from);
  // A program that is not built yet may be built later.
  if (known.exists) found.set(from, known);
  return known;
}

function find(from: string): OwnProgram {
  const { folder, version } = findPackageRoot(dirname(fileURLToPath(from)));
  const path = join(folder, "dist", "agents", "scripted.cjs");
  return { path, exists: existsSync(path), version };
}

function findPackageRoot(folder: string): { folder: string; version: string } {
  const file = join(folder, "package.json");
  if (existsSync(file)) {
    const { name, version } = JSON.parse(readFileSync(file, "utf8")) as { name?: string; version?: string };
    if (name === "sluice") return { folder, version: version ?? "0.0.0" };
  }
  const parent = dirname(folder);
  if (parent === folder) throw new Error("sluice's own package.json was not found above its files");
  return findPackageRoot(parent);
}
