// The first file of the program: it loads the other chunks with their compiled code (docs/decisions/0059). A missing,
// unreadable or foreign cache only costs the time of compiling.
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { homedir } from "node:os";
import { basename, dirname, join } from "node:path";
import { cachedDataVersionTag } from "node:v8";
import { Script } from "node:vm";

const CHUNKS = __dirname;
const TAG = cachedDataVersionTag().toString(16);
/** The cache that the build made, for the Node version that ran the build. */
const BUILT = join(CHUNKS, "code", TAG);
const KEPT_VERSIONS = 4;
const ENTRY = "main.cjs";

interface Chunk {
  exports: unknown;
}

const given = process.env["SLUICE_CODE_CACHE"];
const requireOutside = createRequire(__filename);
const folder = findFolder();
const chunks = new Map<string, Chunk>();
const uncached = new Map<string, Script>();

if (folder !== undefined) process.once("exit", () => saveCode(folder));
load(join(CHUNKS, ENTRY));

function load(path: string): unknown {
  const known = chunks.get(path);
  if (known) return known.exports;
  const chunk: Chunk = { exports: {} };
  chunks.set(path, chunk);
  const run = compile(path).runInThisContext() as (...names: unknown[]) => void;
  run.call(chunk.exports, chunk.exports, requireFrom, chunk, path, dirname(path));
  return chunk.exports;
}

function requireFrom(id: string): unknown {
  return id.startsWith("./") ? load(join(CHUNKS, id)) : requireOutside(id);
}

function compile(path: string): Script {
  const name = basename(path);
  // A chunk's name has the hash of its content, so a cache of that name is never stale. The entry's name has no hash.
  const isCacheable = name !== ENTRY;
  const source = `(function (exports, require, module, __filename, __dirname) {${readFileSync(path, "utf8")}\n})`;
  const cachedData = folder === undefined || !isCacheable ? undefined : readCode(join(folder, name));
  const script = new Script(source, {
    filename: path,
    ...(cachedData && { cachedData }),
  });
  const isCached = cachedData !== undefined && script.cachedDataRejected === false;
  if (isCacheable && !isCached) uncached.set(name, script);
  return script;
}

function readCode(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}

function findFolder(): string | undefined {
  if (given === "off") return undefined;
  if (given) return unlessForeign(join(given, TAG));
  if (isOurs(BUILT)) return BUILT;
  const own = findOwn();
  if (own === undefined || unlessForeign(own) === undefined) return undefined;
  const { version } = requireOutside("sluice/package.json") as { version: string };
  return unlessForeign(join(own, `${version}-${TAG}`));
}

/** The user's own cache, for a Node other than the build's. A user without a home folder has none. */
function findOwn(): string | undefined {
  try {
    return join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "sluice", "code");
  } catch {
    return undefined;
  }
}

function unlessForeign(path: string): string | undefined {
  return !existsSync(path) || isOurs(path) ? path : undefined;
}

/** Compiled code runs unchecked, so no other user may have written it. */
function isOurs(path: string): boolean {
  const uid = process.getuid?.();
  try {
    const { mode, uid: maker } = statSync(path);
    if (uid === undefined) return true;
    return (maker === uid || maker === 0) && (mode & 0o022) === 0;
  } catch {
    return false;
  }
}

/** Saves the code of chunks that had to be compiled. After a failure the next start compiles them again. */
function saveCode(into: string): void {
  // The build's cache is left as it is. It lacks only rare chunks, which are compiled at each start.
  if (uncached.size === 0 || (into === BUILT && !given)) return;
  try {
    mkdirSync(into, { recursive: true, mode: 0o755 });
    if (!isOurs(into)) return;
    for (const [name, script] of uncached) {
      const unfinished = join(into, `.${name}.${process.pid}`);
      writeFileSync(unfinished, script.createCachedData(), { mode: 0o644 });
      renameSync(unfinished, join(into, name));
    }
    if (!given) removeOldVersions(dirname(into));
  } catch {
    return;
  }
}

function removeOldVersions(all: string): void {
  const newestFirst = readdirSync(all)
    .map((name) => ({ path: join(all, name), modified: statSync(join(all, name)).mtimeMs }))
    .toSorted((a, b) => b.modified - a.modified);
  for (const { path } of newestFirst.slice(KEPT_VERSIONS)) rmSync(path, { recursive: true, force: true });
}
