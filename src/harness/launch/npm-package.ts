import { lstatSync, readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { dirname, join, resolve, sep } from "node:path";

const MODULES = "node_modules";
const MAX_MANIFEST_BYTES = 1024 * 1024;
/** A valid name of a package. It cannot lead out of `node_modules`. */
const NAME = /^(?:@[a-z0-9~-][a-z0-9._~-]*\/)?[a-z0-9~-][a-z0-9._~-]*$/i;

interface Manifest {
  readonly bin?: unknown;
  readonly files?: unknown;
  readonly dependencies?: unknown;
  readonly optionalDependencies?: unknown;
  readonly peerDependencies?: unknown;
}

/** The package of a file in `node_modules`, with all its dependencies; undefined for any other file. */
export function installedPackage(real: string): string[] | undefined {
  const root = packageRoot(real);
  if (root === undefined || readManifest(root) === undefined) return undefined;
  return withDependencies(root, [mountOf(root)]);
}

/** A package that is linked from its working folder: only the files that it would publish. */
export function linkedPackage(real: string): string[] | undefined {
  for (let folder = dirname(real); folder !== dirname(folder); folder = dirname(folder)) {
    const manifest = readManifest(folder);
    if (manifest === undefined) continue;
    if (!binsOf(manifest).some((bin) => resolve(folder, bin) === real)) return undefined;
    return withDependencies(folder, [
      real,
      join(folder, "package.json"),
      ...publishedFiles(folder, manifest),
    ]);
  }
  return undefined;
}

/** The folder of the innermost package around a path. */
export function packageRoot(real: string): string | undefined {
  const parts = real.split(sep);
  const modules = parts.lastIndexOf(MODULES);
  const scope = parts[modules + 1];
  if (modules < 0 || scope === undefined) return undefined;
  const end = modules + (scope.startsWith("@") ? 3 : 2);
  if (end >= parts.length || !NAME.test(parts.slice(modules + 1, end).join("/"))) return undefined;
  return parts.slice(0, end).join(sep);
}

function withDependencies(first: string, own: readonly string[]): string[] {
  const found = new Set(own);
  const seen = new Set([first]);
  for (const root of seen) {
    for (const name of dependenciesOf(readManifest(root))) {
      const dependency = findDependency(name, root);
      if (dependency === undefined || seen.has(dependency)) continue;
      seen.add(dependency);
      found.add(mountOf(dependency));
    }
  }
  const parts = mergeMounts(found);
  return [...parts].filter((path) => ![...parts].some((other) => path.startsWith(other + sep)));
}

/** More mounts than this take longer than an agent's start. */
const MAX_MOUNTS = 64;
/** Files of package managers in `node_modules`. Any other hidden file may be a user's data. */
const MANAGER_FILES = new Set([
  ".bin",
  ".package-lock.json",
  ".pnpm",
  ".modules.yaml",
  ".yarn-integrity",
  ".yarn-state.yml",
]);

/** Replaces many packages by their `node_modules`, if that holds only packages. */
function mergeMounts(parts: ReadonlySet<string>): Set<string> {
  const folders = new Map<string, string[]>();
  for (const part of parts) {
    const end = part.indexOf(`${sep}${MODULES}${sep}`);
    const folder = end < 0 ? part : part.slice(0, end + MODULES.length + 1);
    folders.set(folder, [...(folders.get(folder) ?? []), part]);
  }
  const chosen = [...folders].flatMap(([folder, own]) =>
    own.length > MAX_MOUNTS && holdsPackages(folder) ? [folder] : own,
  );
  return new Set(chosen);
}

function holdsPackages(folder: string): boolean {
  try {
    return readdirSync(folder).every((name) => !name.startsWith(".") || MANAGER_FILES.has(name));
  } catch {
    return false;
  }
}

/** Looks in every `node_modules` upwards, as Node does, but not above the outermost one of this installation. */
function findDependency(name: string, from: string): string | undefined {
  const outermost = from.includes(`${sep}${MODULES}${sep}`)
    ? from.slice(0, from.indexOf(`${sep}${MODULES}${sep}`))
    : from;
  for (let folder = from; folder.length >= outermost.length; folder = dirname(folder)) {
    const found = findPackage(join(folder, MODULES, name));
    if (found !== undefined) return found;
    if (folder === dirname(folder)) return undefined;
  }
  return undefined;
}

/** The real path of an installed package. A link to a working folder would expose all of that folder. */
function findPackage(path: string): string | undefined {
  try {
    const real = realpathSync(path);
    return packageRoot(join(real, "package.json")) === real && readManifest(real) !== undefined
      ? real
      : undefined;
  } catch {
    return undefined;
  }
}

/** The folder to mount for a package. With pnpm it is the `node_modules` around it, which has links to dependencies. */
function mountOf(root: string): string {
  return /^.*\/node_modules\/\.pnpm\/[^/]+\/node_modules(?=\/)/.exec(root)?.[0] ?? root;
}

function dependenciesOf(manifest: Manifest | undefined): string[] {
  const { dependencies, optionalDependencies, peerDependencies } = manifest ?? {};
  return [dependencies, optionalDependencies, peerDependencies]
    .flatMap((group) => (typeof group === "object" && group !== null ? Object.keys(group) : []))
    .filter((name) => NAME.test(name));
}

function binsOf({ bin }: Manifest): string[] {
  const values = typeof bin === "object" && bin !== null ? Object.values(bin) : [bin];
  return values.filter((value) => typeof value === "string");
}

/** Entries of `files` in the manifest that are plain names in the package's folder. */
function publishedFiles(folder: string, { files }: Manifest): string[] {
  const names = Array.isArray(files) ? files.filter((name) => typeof name === "string") : [];
  return names.flatMap((name) => {
    const plain = name
      .replace(/^\.\//, "")
      .replace(/\/?\*.*$/, "")
      .replace(/\/+$/, "");
    const parts = plain.split("/");
    if (plain === "" || parts.some((part) => part.startsWith(".") || part === MODULES)) return [];
    const path = join(folder, plain);
    return isOwn(path, folder) ? [path] : [];
  });
}

/** Whether a path lies in the folder and is no link, which could lead anywhere. */
function isOwn(path: string, folder: string): boolean {
  try {
    return !lstatSync(path).isSymbolicLink() && realpathSync(path).startsWith(realpathSync(folder) + sep);
  } catch {
    return false;
  }
}

function readManifest(folder: string): Manifest | undefined {
  try {
    const path = join(folder, "package.json");
    if (statSync(path).size > MAX_MANIFEST_BYTES) return undefined;
    const value: unknown = JSON.parse(readFileSync(path, "utf8"));
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
