import { userInfo } from "node:os";

/** The variables in every process of a sandbox: the sandbox's id, and the key that its processes are found by. */
export const ID_VARIABLE = "SLUICE_SANDBOX";
export const KEY_VARIABLE = "SLUICE_SANDBOX_KEY";

interface EnvironmentSources {
  readonly id: string;
  readonly key: string;
  readonly home: string;
  readonly tmp: string;
  /** The search path and the user's name; by default the server's own. */
  readonly path?: string;
  readonly user?: string;
  readonly env: readonly (Readonly<Record<string, string>> | undefined)[];
}

/** The environment of a sandbox's processes. Of the server's own it has only the search path and the locale. */
export function buildEnvironment(sources: EnvironmentSources): Record<string, string> {
  const { id, key, home, tmp, env } = sources;
  return Object.assign(
    {
      PATH: sources.path ?? process.env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin",
      LANG: "C.UTF-8",
      ...locale(),
      HOME: home,
      TMPDIR: tmp,
      TERM: "dumb",
      USER: sources.user ?? userName(),
    },
    ...env,
    { [ID_VARIABLE]: id, [KEY_VARIABLE]: key },
  ) as Record<string, string>;
}

/** A fixed list of names: SSH often passes other variables that begin with LC_, with any content. */
const CATEGORIES =
  "ADDRESS ALL COLLATE CTYPE IDENTIFICATION MEASUREMENT MESSAGES MONETARY NAME NUMERIC PAPER TELEPHONE TIME";
const LOCALE = ["LANG", "LANGUAGE", ...CATEGORIES.split(" ").map((category) => `LC_${category}`)];

function locale(): Record<string, string> {
  const names = LOCALE.filter((name) => process.env[name] !== undefined);
  return Object.fromEntries(names.map((name) => [name, process.env[name] ?? ""]));
}

export function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // The uid has no line in the passwd file.
    return process.env["USER"] ?? "user";
  }
}
