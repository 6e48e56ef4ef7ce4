import { realpathSync, readFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { homeFolder } from "../../sandbox/data-folder.ts";
import { userName } from "../../sandbox/host/processes/environment.ts";
import type { Redact } from "./redact.ts";

/** Removes private data from text: secrets, home paths, the names of the user and the machine. */
export type Scrub = (text: string) => string;

export interface ScrubOptions {
  readonly redact: Redact;
  readonly identity: Identity;
  /** Folders of this machine, and their names in a recording. */
  readonly places: readonly (readonly [path: string, name: string])[];
}

/** Names that identify nobody, and that many texts contain. */
const COMMON_NAMES = new Set([
  "root",
  "user",
  "admin",
  "ubuntu",
  "debian",
  "node",
  "runner",
  "localhost",
  "host",
]);

export function createScrub({ redact, identity, places }: ScrubOptions): Scrub {
  const { home, user, host, name, email } = identity;
  const paths = [...places, [home, "/home/user"] as const]
    .filter(([path]) => path.length > 1)
    .flatMap(([path, called]) => spellings(path, called))
    // A folder before its parent.
    .toSorted(([a], [b]) => b.length - a.length)
    .map(([path, called]) => [pathPattern(path), called] as const);
  const names = [
    [email, "user@example.com"],
    [name, "User Name"],
    [host, "host"],
    [user, "user"],
  ].flatMap(([known, called]) => (isTelling(known) ? [[wordPattern(known), called ?? ""] as const] : []));
  const patterns = [...paths, ...names];
  return (text) =>
    patterns.reduce((clean, [pattern, called]) => clean.replaceAll(pattern, called), redact(text));
}

/** The spellings of a path: as given, without symlinks, in JSON, and as the folder name that agents make of it. */
function spellings(path: string, called: string): [string, string][] {
  const known = [...new Set([path, realPath(path)])];
  const plain = known.flatMap((text) => [text, JSON.stringify(text).slice(1, -1)]);
  const flat = known.filter((text) => text.split("/").length > 2).map(flatten);
  return [
    ...plain.map((text): [string, string] => [text, called]),
    ...flat.map((text): [string, string] => [text, flatten(called)]),
  ];
}

function flatten(path: string): string {
  return path.replaceAll(/[^A-Za-z0-9]/g, "-");
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

function isTelling(name: string | undefined): name is string {
  return name !== undefined && name.length > 2 && !COMMON_NAMES.has(name.toLowerCase());
}

function pathPattern(path: string): RegExp {
  return new RegExp(`${escape(path)}(?!\\w)`, "g");
}

/** In JSON text the letter of an escape, such as that of a newline, may precede the word. */
function wordPattern(word: string): RegExp {
  return new RegExp(`(?:(?<!\\w)|(?<=\\\\[bfnrt]))${escape(word)}(?!\\w)`, "g");
}

function escape(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\/-]/g, String.raw`\$&`);
}

/** The identity of this machine and its user, which a recording must not contain. */
export interface Identity {
  readonly home: string;
  readonly user: string;
  readonly host: string;
  /** From the git configuration. */
  readonly name?: string;
  readonly email?: string;
}

export function readIdentity(): Identity {
  const home = homeFolder();
  return { home, user: userName(), host: hostname(), ...readSignature(home) };
}

function readSignature(home: string): { name?: string; email?: string } {
  const signature: { name?: string; email?: string } = {};
  for (const file of [".gitconfig", ".config/git/config"]) {
    const [, section = ""] = /^\s*\[user\]([^[]*)/m.exec(readText(join(home, file))) ?? [];
    const name = /^\s*name\s*=\s*"?(.+?)"?\s*$/m.exec(section)?.[1];
    const email = /^\s*email\s*=\s*"?(.+?)"?\s*$/m.exec(section)?.[1];
    if (name !== undefined) signature.name ??= name;
    if (email !== undefined) signature.email ??= email;
  }
  return signature;
}

function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
