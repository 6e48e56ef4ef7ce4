import { lstatSync, readdirSync, readlinkSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join, resolve, sep } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import { interpreterOf, isProgram } from "./executable.ts";
import { installedPackage, linkedPackage } from "./npm-package.ts";
import { isSharedFolder } from "./shared-folder.ts";

/** Every sandbox has these folders, from the host or from its image. */
const SYSTEM = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];
/** The longest chain of interpreters: a script may be the interpreter of a script. */
const MAX_DEPTH = 4;
const MAX_LINKS = 40;

/**
 * The host paths that a program needs in a sandbox: its file, its npm package or installation, and its interpreter.
 * A folder that may hold other files is never among them; in doubt, only the file is.
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

/** `PREFIX/bin/name` with its libraries, where the prefix holds nothing but one installation. */
function installationOf(real: string): string[] {
  const prefix = prefixOf(real);
  if (prefix === undefined || isSharedFolder(prefix)) return [];
  const names = namesIn(prefix);
  const isInstallation = names.every((name) => STANDARD.test(name) || NOTICE.test(name));
  // In a global prefix of npm the libraries belong to other programs.
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
  for (let at = path; links.length < MAX_LINKS && lstatSync(at).isSymbolicLink(); links.push(at))
    at = resolve(dirname(at), readlinkSync(at));
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
