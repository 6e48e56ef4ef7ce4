import { execFile } from "node:child_process";
import { realpathSync, statSync } from "node:fs";
import { isAbsolute } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import type { Detected, LaunchContext } from "../port.ts";
import { findOnPath, isProgram, shimTarget } from "./executable.ts";
import { packageRoot } from "./npm-package.ts";
import { partsOf } from "./parts.ts";

/** A program of the user, and the paths that it needs in a sandbox. */
export interface Cli {
  readonly path: string;
  /** Files and folders that belong to it alone. */
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
  // The package's own file: a shim finds it by links that a sandbox does not have.
  const program = realpathSync(target);
  return packageRoot(program) === undefined ? real : program;
}

interface DefinedCli {
  /** Whether it is installed, its version on request, and else the command that installs it. */
  detect(options?: { withVersion?: boolean }): Promise<Detected>;
  /** The program. If it is not installed, an error with the command that installs it. */
  require(context: Pick<LaunchContext, "isRehearsal">): Cli;
}

/** The CLI of a harness, by its name on PATH. */
export function defineCli(name: string, { title, install }: { title: string; install: string }): DefinedCli {
  return {
    async detect({ withVersion = false } = {}) {
      const path = findReal(name);
      if (path === undefined) return { installed: false, hint: install };
      const version = withVersion ? await readVersion(path) : undefined;
      return { installed: true, ...(version === undefined ? {} : { version }) };
    },
    require({ isRehearsal = false }) {
      const cli = findCli(name) ?? (isRehearsal ? { path: name, needs: [] } : undefined);
      if (cli) return cli;
      const detail = `${title} is not installed. Install it: ${install}`;
      throw new SluiceError("agent_not_installed", detail, { agent: name, install });
    },
  };
}

const versions = new Map<string, Promise<string | undefined>>();

/** Read once per file and modification time: some programs take seconds for it. */
function readVersion(path: string): Promise<string | undefined> {
  const key = `${path} ${statSync(path).mtimeMs}`;
  const known = versions.get(key) ?? askVersion(path);
  versions.set(key, known);
  return known;
}

function askVersion(path: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile(path, ["--version"], { timeout: 20_000 }, (error, stdout) => {
      const found = /\d+\.\d+\.\d+[^\s)]*/.exec(stdout)?.[0];
      resolve(error && found === undefined ? undefined : found);
    });
  });
}
