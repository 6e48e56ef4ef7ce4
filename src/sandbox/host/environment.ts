import { userInfo } from "node:os";

/** In the environment of every process of a sandbox, so that it can be found whatever it does. */
export const MARKER = "SLUICE_SANDBOX";
export const KEY_MARKER = "SLUICE_SANDBOX_KEY";

export interface EnvironmentSources {
  readonly id: string;
  readonly key: string;
  readonly home: string;
  readonly tmp: string;
  /** The search path, unless it is the server's own. */
  readonly path?: string;
  readonly user?: string;
  readonly env: readonly (Readonly<Record<string, string>> | undefined)[];
}

/** Built from nothing: of the server's own environment only the search path and the locale are in it. */
export function toEnvironment(sources: EnvironmentSources): Record<string, string> {
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
    { [MARKER]: id, [KEY_MARKER]: key },
  ) as Record<string, string>;
}

/** By name: other variables that begin with LC_ are what people pass through SSH. */
const LOCALE = ["LANG", "LANGUAGE"].concat(
  ["ADDRESS", "ALL", "COLLATE", "CTYPE", "IDENTIFICATION", "MEASUREMENT", "MESSAGES", "MONETARY"].map(
    toLocale,
  ),
  ["NAME", "NUMERIC", "PAPER", "TELEPHONE", "TIME"].map(toLocale),
);

function toLocale(category: string): string {
  return `LC_${category}`;
}

function locale(): Record<string, string> {
  const names = LOCALE.filter((name) => process.env[name] !== undefined);
  return Object.fromEntries(names.map((name) => [name, process.env[name] ?? ""]));
}

export function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // A uid without a line in the passwd file.
    return process.env["USER"] ?? "user";
  }
}
