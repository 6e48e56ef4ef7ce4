import { realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join, relative } from "node:path";

interface Start {
  readonly script: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
}

/** The command that starts this program, for hints to paste into a shell. The program of a clone is not on PATH. */
export function toInvocation({ script, env, cwd }: Start): string {
  if (script === undefined || isOnPath(script, env["PATH"])) return "sluice";
  if (env["npm_command"] === "exec") return "npx sluice";
  const path = relative(cwd, script);
  return quoteWord(path.startsWith("..") ? script : `./${path}`);
}

function isOnPath(script: string, path = ""): boolean {
  const real = toReal(script);
  return path.split(delimiter).some((folder) => folder !== "" && toReal(join(folder, "sluice")) === real);
}

function toReal(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}

/** A word as a shell reads it: quoted only if it has special characters. */
export function quoteWord(word: string): string {
  return /^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Names this program in the hints of a text as the user called it. */
export function nameProgram(text: string, command = "sluice"): string {
  return text.replaceAll(/`sluice(?= )/g, () => `\`${command}`);
}

/** The package's version. The package's name finds its manifest from the sources and from the build alike. */
export function readVersion(): string {
  const { version } = createRequire(import.meta.url)("sluice/package.json") as { version: string };
  return version;
}
