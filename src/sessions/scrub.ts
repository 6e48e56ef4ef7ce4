import { realpathSync } from "node:fs";
import type { Identity } from "./identity.ts";
import type { Redact } from "./redact.ts";

/** Takes out of a text whatever says whose it is: secrets, home paths, the names of the user and the machine. */
export type Scrub = (text: string) => string;

export interface ScrubOptions {
  readonly redact: Redact;
  readonly identity: Identity;
  /** Folders of this machine, and what they are called in a recording. */
  readonly places: readonly (readonly [path: string, name: string])[];
}

/** Names that tell nobody apart, and stand in many a text. */
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
    // A folder before the one that it lies in.
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

/** A path as it may be written: as it is, as it is really, in JSON, and as the name of a folder that agents make of it. */
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

/** A line is JSON text: before a word may stand the letter of an escape, such as that of a newline. */
function wordPattern(word: string): RegExp {
  return new RegExp(`(?:(?<!\\w)|(?<=\\\\[bfnrt]))${escape(word)}(?!\\w)`, "g");
}

function escape(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\/-]/g, String.raw`\$&`);
}
