import { execFile } from "node:child_process";
import { accessSync, constants, realpathSync, statSync } from "node:fs";
import { delimiter, dirname, join, sep } from "node:path";
import { SluiceError } from "../contract/index.ts";
import type { Detected, LaunchContext } from "./port.ts";

/** A program of the user's, and what of the disk it needs to run elsewhere. */
export interface Cli {
  readonly path: string;
  /** Its real folder: the npm package that it belongs to, or the folder that it lies in. */
  readonly needs: readonly string[];
}

/** The first executable of that name on PATH. */
export function findCli(name: string, path = process.env["PATH"] ?? ""): Cli | undefined {
  for (const folder of path.split(delimiter)) {
    const candidate = join(folder, name);
    if (folder === "" || !isExecutable(candidate)) continue;
    const real = realpathSync(candidate);
    return { path: real, needs: [packageOf(real)] };
  }
  return undefined;
}

/** The program that a harness starts; where it is not installed, an error that says how it would be. */
export function requireCli(
  name: string,
  options: { title: string; install: string; context: Pick<LaunchContext, "isRehearsal"> },
): Cli {
  const cli = findCli(name);
  if (cli) return cli;
  if (options.context.isRehearsal === true) return { path: name, needs: [] };
  const { title, install } = options;
  throw new SluiceError("agent_not_installed", `${title} is not installed. Install it: ${install}`, {
    agent: name,
    install,
  });
}

/** Whether it is installed, at which version, and if not, how it would be. */
export async function detectCli(
  name: string,
  options: { install: string; args?: readonly string[]; withVersion?: boolean | undefined },
): Promise<Detected> {
  const cli = findCli(name);
  if (!cli) return { installed: false, hint: options.install };
  if (options.withVersion !== true) return { installed: true };
  const version = await readVersion(cli.path, options.args ?? ["--version"]);
  return { installed: true, ...(version === undefined ? {} : { version }) };
}

const versions = new Map<string, Promise<string | undefined>>();

/** Asked once for each program as it is: some take seconds to say it. */
function readVersion(path: string, args: readonly string[]): Promise<string | undefined> {
  const key = `${path} ${statSync(path).mtimeMs}`;
  const known = versions.get(key) ?? askVersion(path, args);
  versions.set(key, known);
  return known;
}

function askVersion(path: string, args: readonly string[]): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile(path, [...args], { timeout: 20_000 }, (error, stdout) => {
      const found = /\d+\.\d+\.\d+[^\s)]*/.exec(stdout)?.[0];
      resolve(error && found === undefined ? undefined : found);
    });
  });
}

/** npm's platform packages lie beside the package that chooses among them: all of `node_modules` is needed then. */
function packageOf(real: string): string {
  const parts = real.split(sep);
  const modules = parts.indexOf("node_modules");
  return modules < 0 ? dirname(real) : parts.slice(0, modules + 1).join(sep);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
