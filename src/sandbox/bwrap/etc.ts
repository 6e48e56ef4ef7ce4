import { dirname, join, posix } from "node:path";
import {
  copyFile,
  lstat,
  mkdir,
  readFile,
  readlink,
  stat,
  symlink,
  writeFile,
} from "../../disk/onTheSpot.ts";
import { isOfSystem } from "./system.ts";

/** What programs look up in the host's /etc and anybody may know. Folders are mounted, files are copied. */
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

/** The folders of the host's /etc that stand in every sandbox's, by their names. */
export function etcFolders(): Promise<string[]> {
  folders ??= findFolders();
  return folders;
}

/** Makes the folder that is a sandbox's /etc, with a place for each of the folders of the host's. */
export async function makeEtc(etc: string, { network }: { network: "own" | "host" }): Promise<void> {
  await mkdir(etc, { recursive: true, mode: 0o755 });
  for (const name of await etcFolders()) await mkdir(join(etc, name), { recursive: true, mode: 0o755 });
  for (const name of FILES) await bring(name, join(etc, name));
  const resolver = network === "host" ? await readFile("/etc/resolv.conf", "utf8").catch(() => "") : "";
  for (const [name, text] of Object.entries({ ...OWN, "resolv.conf": resolver })) {
    await writeFile(join(etc, name), text, { mode: 0o644 });
  }
}

/** A text that differs when what `makeEtc` makes for a network of its own would differ. */
export async function etcState(): Promise<string> {
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

/** A link into the system stays one, so that the time zone can be read off it. */
async function bring(name: string, to: string): Promise<void> {
  const from = join("/etc", name);
  const found = await lstat(from).catch(() => undefined);
  if (found === undefined || (await lstat(to).catch(() => undefined)) !== undefined) return;
  await mkdir(dirname(to), { recursive: true, mode: 0o755 });
  const target = found.isSymbolicLink() ? posix.resolve(dirname(from), await readlink(from)) : undefined;
  if (target !== undefined && isOfSystem(target)) return symlink(target, to);
  await copyFile(from, to).catch(() => {});
}
