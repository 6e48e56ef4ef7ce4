import { createHash } from "node:crypto";
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach } from "vitest";
import { createCheckpoints } from "../../../src/sandbox/checkpoint/checkpoints.ts";
import { createFolderStorage } from "../../../src/sandbox/checkpoint/storage/folder.ts";
import { parsePack } from "../../../src/sandbox/checkpoint/storage/pack.ts";
import { removeTree } from "../../../src/sandbox/host/files/remove-tree.ts";
import type { Checkpoints, CheckpointStorage } from "../../../src/sandbox/checkpoint/port.ts";

const folders: string[] = [];

afterEach(async () => {
  for (const folder of folders.splice(0)) await removeTree(folder);
});

export function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-checkpoint-"));
  folders.push(folder);
  return folder;
}

export interface Bench {
  readonly folder: string;
  readonly storage: CheckpointStorage;
  readonly checkpoints: Checkpoints;
  readonly workspace: string;
  readonly home: string;
  readonly roots: { workspace: string; home: string };
  /** The same storage seen by a process that remembers nothing. */
  reopened(): Checkpoints;
  objects(prefix?: string): Promise<string[]>;
  /** The bytes of every object, packs with all that is in them. */
  everything(): Promise<Buffer>;
}

export function makeBench(storage?: CheckpointStorage): Bench {
  const folder = makeFolder();
  const used = storage ?? createFolderStorage(join(folder, "storage"));
  const roots = { workspace: join(folder, "workspace"), home: join(folder, "home") };
  for (const path of Object.values(roots)) mkdirSync(path);
  let caches = 0;
  const open = (): Checkpoints =>
    createCheckpoints({ storage: used, cacheFolder: join(folder, `cache-${caches++}`) });
  return {
    folder,
    storage: used,
    checkpoints: open(),
    ...roots,
    roots,
    reopened: open,
    objects: (prefix = "") => used.list(prefix),
    everything: async () => {
      const parts: Uint8Array[] = [];
      for (const key of await used.list("")) {
        const bytes = (await used.get(key)) ?? new Uint8Array();
        parts.push(bytes);
        if (key.startsWith("packs/")) parts.push(...(await parsePack(key, bytes)).values());
      }
      return Buffer.concat(parts);
    },
  };
}

/** Files by path; a path that ends in a slash is an empty folder. All of them look as if they were made long ago. */
export function plant(root: string, files: Readonly<Record<string, string | Uint8Array>>): void {
  for (const [path, content] of Object.entries(files)) {
    const file = join(root, path);
    mkdirSync(path.endsWith("/") ? file : dirname(file), { recursive: true });
    if (path.endsWith("/")) continue;
    writeFileSync(file, content);
    utimesSync(file, 1_700_000_000, 1_700_000_000);
  }
}

/** Files that changed a moment ago are read again by design. This makes their change older. */
export async function settle(): Promise<void> {
  await sleep(150);
}

export interface Look {
  readonly kind: "file" | "directory" | "symlink";
  readonly mode?: number;
  readonly content?: string;
  readonly mtime?: number;
}

/** Everything that a checkpoint has to bring back, by path. */
export function look(root: string): Record<string, Look> {
  const found: Record<string, Look> = {};
  const walk = (folder: string, prefix: string): void => {
    for (const name of readdirSync(folder).sort()) {
      const file = join(folder, name);
      const stat = lstatSync(file);
      const path = prefix + name;
      const mode = stat.mode & 0o777;
      if (stat.isSymbolicLink()) found[path] = { kind: "symlink", content: readlinkSync(file) };
      else if (stat.isDirectory()) {
        found[path] = { kind: "directory", mode };
        walk(file, `${path}/`);
      } else {
        const content = createHash("sha256").update(readFileSync(file)).digest("hex");
        found[path] = { kind: "file", mode, content, mtime: Math.round(stat.mtimeMs) };
      }
    }
  };
  walk(root, "");
  return found;
}
