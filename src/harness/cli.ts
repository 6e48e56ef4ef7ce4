import { execFile } from "node:child_process";
import { realpathSync, statSync } from "node:fs";
import { isAbsolute } from "node:path";
import { SluiceError } from "../contract/index.ts";
import type { Detected, LaunchContext } from "./port.ts";
import { findOnPath, isProgram } from "./program/find.ts";
import { shimTarget } from "./program/first-line.ts";
import { packageRoot } from "./program/npm-package.ts";
import { partsOf } from "./program/parts.ts";

/** A program of the user's, and what of the disk it needs to run elsewhere. */
export interface Cli {
  readonly path: string;
  /** Files and folders that are its own; none that holds anything else. */
  readonly needs: readonly string[];
}

/** A program by its absolute path, or the first of its name on PATH. */
export function findCli(name: string): Cli | undefined {
  const path = findReal(name);
  return path === undefined ? undefined : { path, needs: partsOf(path) };
}

function findReal(name: string): string | undefined {
  const found = isAbsolute(name) ? (isProgram(name) ? name : undefined) : findOnPath(name);
  if (found === undefined) return undefined;
  const real = realpathSync(found);
  const target = shimTarget(real);
  if (target === undefined || !isProgram(target)) return real;
  // The package's own file: a shim looks for it by links that a sandbox does not have.
  const program = realpathSync(target);
  return packageRoot(program) === undefined ? real : program;
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
  const path = findReal(name);
  if (path === undefined) return { installed: false, hint: options.install };
  if (options.withVersion !== true) return { installed: true };
  const version = await readVersion(path, options.args ?? ["--version"]);
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
