import { realpathSync } from "node:fs";
import { delimiter, join, relative } from "node:path";
import { quoteWord } from "./where.ts";

interface Started {
  readonly script: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
}

/** The words by which this program was started, so that a hint can be typed as it stands: a clone is not on PATH. */
export function startedAs({ script, env, cwd }: Started): string {
  if (script === undefined || isOnPath(script, env["PATH"])) return "sluice";
  if (env["npm_command"] === "exec") return "npx sluice";
  const inside = relative(cwd, script);
  return quoteWord(inside.startsWith("..") ? script : `./${inside}`);
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
