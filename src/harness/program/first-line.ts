import { closeSync, openSync, readSync } from "node:fs";
import { basename, dirname, isAbsolute, join } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import { findOnPath } from "./find.ts";

/** The kernel reads no more of a first line. */
const HEAD_BYTES = 256;
const SHIM_BYTES = 8192;

/** The program that a script's first line asks for; undefined for what is no script. */
export function interpreterOf(script: string): string | undefined {
  const [, line] = /^#![ \t]*([^\n]*)/.exec(readHead(script, HEAD_BYTES)) ?? [];
  if (line === undefined) return undefined;
  const words = line.split(/[ \t]+/).filter(Boolean);
  const [program = "", ...rest] = words;
  if (!isAbsolute(program)) throw lacks(script, program);
  if (basename(program) !== "env") return program;
  const name = rest.find((word) => !word.startsWith("-") && !/^[A-Za-z_]\w*=/.test(word));
  if (name === undefined) return program;
  // Ours is the one that is on the sandbox's search path.
  if (name === "node") return process.execPath;
  return isAbsolute(name) ? name : (findOnPath(name) ?? lacksAny(script, name));
}

/** What a shim of pnpm or of cmd-shim starts: it names the program beside itself. */
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

function lacksAny(script: string, name: string): never {
  throw lacks(script, name);
}

function lacks(script: string, name: string): SluiceError {
  const detail = `${script} cannot be started: its first line asks for "${name}", which is not there. Install it on the server's PATH, or write its absolute path into that line.`;
  return new SluiceError("agent_not_installed", detail, { command: script });
}
