import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** A package does not move while it runs. */
const roots = new Map<string, { folder: string; version: string }>();

/** The agent's own file and its package's version, from wherever this module was bundled to. */
export function findExecutable(from: string = import.meta.url): {
  path: string;
  exists: boolean;
  version: string;
} {
  const folder = dirname(fileURLToPath(from));
  const root = roots.get(folder) ?? findPackageRoot(folder);
  roots.set(folder, root);
  const path = join(root.folder, "dist", "agents", "scripted.cjs");
  return { path, exists: existsSync(path), version: root.version };
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
