import { createHash } from "node:crypto";
import { lstatSync, mkdtempSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import {
  chmod,
  copyFile,
  lstat,
  mkdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from "../../disk/on-the-spot.ts";
import { isOfSystem } from "./system.ts";
import { findMemoryFolder } from "./unnamed-file.ts";

/** The public part of the host's /etc. Its folders are mounted, its files are copied. */
const FOLDERS = [
  "alternatives",
  "fonts",
  "java",
  "pki/ca-trust",
  "pki/java",
  "pki/tls/certs",
  "ssl/certs",
  "ssl/java",
  "terminfo",
];
const FILES = [
  "debian_version",
  "ld.so.cache",
  "localtime",
  "magic",
  "mime.types",
  "os-release",
  "pki/tls/cert.pem",
  "pki/tls/openssl.cnf",
  "protocols",
  "services",
  "ssl/cert.pem",
  "ssl/openssl.cnf",
  "timezone",
];

let folders: Promise<string[]> | undefined;

/** The names of the host's folders in /etc that every sandbox sees. */
export function etcFolders(): Promise<string[]> {
  folders ??= findFolders();
  return folders;
}

/** Makes a sandbox's /etc, with an empty folder as the target of each mount. */
export async function makeEtc(etc: string, { network }: { network: "own" | "host" }): Promise<void> {
  await mkdir(etc, { recursive: true, mode: 0o755 });
  for (const name of await etcFolders()) await mkdir(join(etc, name), { recursive: true, mode: 0o755 });
  for (const name of FILES) await copyEntry(name, join(etc, name));
  const resolver = network === "host" ? await readFile("/etc/resolv.conf", "utf8").catch(() => "") : "";
  for (const [name, text] of Object.entries({ ...OWN, "resolv.conf": resolver })) {
    await writeFile(join(etc, name), text, { mode: 0o644 });
  }
}

/** A text that is equal as long as `makeEtc` would make the same files for a network of its own. */
async function etcState(): Promise<string> {
  const files = await Promise.all(
    FILES.map(async (name) => {
      const found = await lstat(join("/etc", name)).catch(() => undefined);
      return found === undefined ? [] : [name, found.ino, found.size, found.mtimeMs];
    }),
  );
  return JSON.stringify([files, await etcFolders(), OWN]);
}

const OWN: Readonly<Record<string, string>> = {
  passwd:
    "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
  group: "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n",
  hosts: "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost\n",
  hostname: "sandbox\n",
  "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n",
};

async function findFolders(): Promise<string[]> {
  const found = await Promise.all(
    FOLDERS.map(async (name) => (await stat(join("/etc", name)).catch(() => undefined))?.isDirectory()),
  );
  return FOLDERS.filter((_, index) => found[index]);
}

/** Copies a file. A link into the system stays a link, because programs read the time zone from its target. */
async function copyEntry(name: string, to: string): Promise<void> {
  const from = join("/etc", name);
  const found = await lstat(from).catch(() => undefined);
  if (found === undefined || (await lstat(to).catch(() => undefined)) !== undefined) return;
  await mkdir(dirname(to), { recursive: true, mode: 0o755 });
  const target = found.isSymbolicLink() ? posix.resolve(dirname(from), await readlink(from)) : undefined;
  if (target !== undefined && isOfSystem(target)) return symlink(target, to);
  await copyFile(from, to).catch(() => {});
}

const making = new Map<string, Promise<string>>();

/**
 * The /etc, in memory, that all sandboxes of this user share if they have a network of their own. When the host's /etc
 * changes, the next caller makes a new one under another name. Undefined without a memory folder, or without space.
 */
export async function findSharedEtc(
  folder: string | undefined = findMemoryFolder(),
): Promise<string | undefined> {
  if (folder === undefined) return undefined;
  const state = createHash("sha256")
    .update(await etcState())
    .digest("hex")
    .slice(0, 20);
  const path = join(folder, `sluice-etc-${process.geteuid?.()}-${state}`);
  const work = making.get(path) ?? makeShared(folder, path);
  making.set(path, work);
  return work.finally(() => making.delete(path)).catch(() => undefined);
}

async function makeShared(folder: string, path: string): Promise<string> {
  if (isOurs(path)) return path;
  const unfinished = mkdtempSync(join(folder, ".sluice-etc-"));
  await makeEtc(unfinished, { network: "own" });
  await chmod(unfinished, 0o755);
  // A rename publishes all files at once. It fails if another server was faster.
  await rename(unfinished, path).catch(() => rm(unfinished, { recursive: true, force: true }));
  if (isOurs(path)) return path;
  throw new Error(`${path} belongs to somebody else; remove it`);
}

/** Whether only this user can have written it. */
function isOurs(path: string): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return false;
  return found.isDirectory() && found.uid === process.geteuid?.() && (found.mode & 0o022) === 0;
}
