import { lstatSync, readdirSync, readFileSync, readlinkSync, realpathSync, statSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { basename, dirname, join, resolve, sep } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import { interpreterOf, isProgram } from "./executable.ts";
import { installedPackage, linkedPackage } from "./npm-package.ts";

/** Every sandbox has these folders, from the host or from its image. */
const SYSTEM = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];
/** The longest chain of interpreters: a script may be the interpreter of a script. */
const MAX_DEPTH = 4;
const MAX_LINKS = 40;

/**
 * The host paths that a program needs in a sandbox: its file, its npm package or installation, and its interpreter. A
 * folder that may have other files is never included; in doubt, only the program's file is.
 */
export function partsOf(program: string): string[] {
  const found = new Set<string>();
  addProgram(program, found, MAX_DEPTH);
  return [...found].filter((path) => ![...found].some((other) => path.startsWith(other + sep)));
}

function addProgram(program: string, found: Set<string>, depth: number): void {
  const real = realpathSync(program);
  for (const part of ownParts(program, real)) found.add(part);
  if (depth === 0) return;
  const interpreter = interpreterOf(real);
  if (interpreter === undefined || isSystemPath(interpreter)) return;
  if (!isProgram(interpreter)) throw missingInterpreter(real, interpreter);
  // The kernel follows the path of the first line, links included.
  for (const link of linksOf(interpreter)) found.add(link);
  addProgram(interpreter, found, depth - 1);
}

function ownParts(program: string, real: string): string[] {
  if (isSystemPath(real)) return [real, ...virtualEnvironmentOf(program)];
  return [
    real,
    ...(installedPackage(real) ?? linkedPackage(real) ?? []),
    ...installationOf(real),
    ...virtualEnvironmentOf(program),
    ...optionalPackageOf(real),
  ];
}

const STANDARD = /^(?:s?bin|lib(?:32|64|exec)?|include|share|man|docs?|legal|conf)$/;
const NOTICE = /^(?:readme|licen[cs]e|changelog|changes|notice|copying|authors|version|release)(?:\.\w+)?$/i;
const LIBRARIES = ["lib", "lib32", "lib64", "libexec", "share"];

/** The libraries of `PREFIX/bin/name`, if the prefix contains only one installation. */
function installationOf(real: string): string[] {
  const prefix = prefixOf(real);
  if (prefix === undefined || isSharedFolder(prefix)) return [];
  const names = namesIn(prefix);
  const isInstallation = names.every((name) => STANDARD.test(name) || NOTICE.test(name));
  // In npm's global prefix the libraries belong to other programs.
  if (!isInstallation || isThere(join(prefix, "lib", "node_modules"))) return [];
  return LIBRARIES.filter((name) => names.includes(name)).map((name) => join(prefix, name));
}

/** Python finds the packages of a virtual environment by its start path, not by its real path. */
function virtualEnvironmentOf(program: string): string[] {
  const prefix = prefixOf(program);
  if (prefix === undefined || isSharedFolder(prefix)) return [];
  const settings = join(prefix, "pyvenv.cfg");
  if (!isThere(settings)) return [];
  return [settings, ...["lib", "lib64"].map((name) => join(prefix, name)).filter(isThere)];
}

/** `/opt/NAME` belongs to one package by the file system hierarchy standard. */
function optionalPackageOf(real: string): string[] {
  if (!real.startsWith("/opt/")) return [];
  const folder = prefixOf(real) ?? dirname(real);
  return folder.startsWith("/opt/") && !isSharedFolder(folder) ? [folder] : [];
}

function prefixOf(program: string): string | undefined {
  const folder = dirname(program);
  return basename(folder) === "bin" ? dirname(folder) : undefined;
}

/** The path, and the links from it to the real file. */
function linksOf(path: string): string[] {
  const links = [path];
  let at = path;
  while (links.length < MAX_LINKS && lstatSync(at).isSymbolicLink()) {
    at = resolve(dirname(at), readlinkSync(at));
    links.push(at);
  }
  return links.filter((link) => !isSystemPath(link));
}

function isSystemPath(path: string): boolean {
  return SYSTEM.some((root) => path.startsWith(root + sep));
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function isThere(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}

function missingInterpreter(script: string, interpreter: string): SluiceError {
  const detail = `${script} cannot be started: its first line asks for ${interpreter}, which is not there or cannot be run. Install it, or change that line.`;
  return new SluiceError("agent_not_installed", detail, { command: script });
}

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
function isSharedFolder(folder: string): boolean {
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
