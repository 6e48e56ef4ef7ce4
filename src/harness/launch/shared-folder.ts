import { readFileSync, realpathSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { dirname, join, sep } from "node:path";

/** Folders that many programs share, or that belong to the system. */
const COMMON = new Set([
  "/",
  "/boot",
  "/dev",
  "/etc",
  "/export/home",
  "/home",
  "/media",
  "/mnt",
  "/nix",
  "/nix/store",
  "/opt",
  "/opt/homebrew",
  "/proc",
  "/root",
  "/run",
  "/snap",
  "/srv",
  "/sys",
  "/usr",
  "/usr/local",
  "/Users",
  "/var",
  "/var/home",
  "/var/lib",
]);

/** The parents of homes. Users outside the passwd file have homes there too. */
const HOME_PARENTS = new Set(["/home", "/Users", "/var/home", "/export/home"]);

/** Folders of a home that hold programs and files of every kind. */
const HOME_FOLDERS = [
  ".local",
  ".local/bin",
  ".local/lib",
  ".local/share",
  ".local/state",
  ".cache",
  ".config",
  ".ssh",
  "bin",
  "lib",
  "opt",
  "Desktop",
  "Documents",
  "Downloads",
  "Library",
  "Library/Application Support",
];

/** Whether a folder holds more than one program's files, so that a sandbox must not see all of it. */
export function isSharedFolder(folder: string): boolean {
  if (COMMON.has(folder) || HOME_PARENTS.has(dirname(folder))) return true;
  const homes = readHomes();
  if (homes.some((home) => HOME_FOLDERS.some((name) => join(home, name) === folder))) return true;
  const kept = [...homes, ...withRealPath(tmpdir()), "/tmp", "/var/tmp", ...withRealPath(process.cwd())];
  return kept.some((path) => path === folder || path.startsWith(folder + sep));
}

/** The homes of this machine's users, the server's own among them. */
function readHomes(): string[] {
  const homes = [process.env["HOME"], ownHome(), ...passwdHomes()];
  return [...new Set(homes.flatMap((home) => (home?.startsWith("/") ? withRealPath(home) : [])))];
}

function ownHome(): string | undefined {
  try {
    return userInfo().homedir;
  } catch {
    // The uid has no line in the passwd file.
    return undefined;
  }
}

function passwdHomes(): (string | undefined)[] {
  try {
    return readFileSync("/etc/passwd", "utf8")
      .split("\n")
      .map((line) => line.split(":")[5]);
  } catch {
    return [];
  }
}

/** A path as written, and its real path. */
function withRealPath(path: string): string[] {
  const bare = path.length > 1 && path.endsWith(sep) ? path.slice(0, -1) : path;
  try {
    return [bare, realpathSync(bare)];
  } catch {
    return [bare];
  }
}
