import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  openSync,
  readFileSync,
  readSync,
  statSync,
} from "node:fs";
import { basename, delimiter, dirname, isAbsolute, join } from "node:path";
import { fileURLToPath } from "node:url";
import { SluiceError } from "../../contract/index.ts";

/** The kernel's limit for the first line of a script. */
const HEAD_BYTES = 256;
const SHIM_BYTES = 8192;

/** The interpreter in a script's first line; undefined for a file without one. */
export function interpreterOf(script: string): string | undefined {
  const [, line] = /^#![ \t]*([^\n]*)/.exec(readHead(script, HEAD_BYTES)) ?? [];
  if (line === undefined) return undefined;
  const words = line.split(/[ \t]+/).filter(Boolean);
  const [program = "", ...rest] = words;
  if (!isAbsolute(program)) failMissing(script, program);
  if (basename(program) !== "env") return program;
  const name = rest.find((word) => !word.startsWith("-") && !/^[A-Za-z_]\w*=/.test(word));
  if (name === undefined) return program;
  // The sandbox's search path has our own Node.
  if (name === "node") return process.execPath;
  return isAbsolute(name) ? name : (findOnPath(name) ?? failMissing(script, name));
}

/** The program that a shim of pnpm or cmd-shim starts. */
export function shimTarget(script: string): string | undefined {
  const text = readHead(script, SHIM_BYTES);
  if (!text.startsWith("#!/bin/sh")) return undefined;
  const [, relative] = /exec node\s+"\$basedir\/([^"$`\\\n]+)"/.exec(text) ?? [];
  return relative === undefined ? undefined : join(dirname(script), relative);
}

function readHead(path: string, bytes: number): string {
  const fd = openSync(path, "r");
  try {
    const buffer = Buffer.alloc(bytes);
    return buffer.toString("utf8", 0, readSync(fd, buffer, 0, bytes, 0));
  } catch {
    return "";
  } finally {
    closeSync(fd);
  }
}

function failMissing(script: string, name: string): never {
  const detail = `${script} cannot be started: its first line asks for "${name}", which is not there. Install it on the server's PATH, or write its absolute path into that line.`;
  throw new SluiceError("agent_not_installed", detail, { command: script });
}

/**
 * The first program of that name on the search path. Relative folders are skipped: they depend on the server's start.
 */
export function findOnPath(name: string, path = process.env["PATH"] ?? ""): string | undefined {
  if (name === "" || name.includes("/")) return undefined;
  return path
    .split(delimiter)
    .filter((folder) => isAbsolute(folder))
    .map((folder) => join(folder, name))
    .find(isProgram);
}

export function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

interface OwnProgram {
  readonly path: string;
  readonly exists: boolean;
  readonly version: string;
}

/** Read once: the built command line is no module, and each use of `import.meta.url` computes the URL again there. */
const HERE = import.meta.url;

/** Results by calling module. A package does not move while it runs. */
const found = new Map<string, OwnProgram>();

/** The scripted agent's file and the package's version. The other programs of sluice are built beside it. */
export function findOwnProgram(from: string = HERE): OwnProgram {
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
