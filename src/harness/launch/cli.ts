import { execFile } from "node:child_process";
import { realpathSync, statSync } from "node:fs";
import { isAbsolute } from "node:path";
import { SluiceError, type Programs } from "../../contract/index.ts";
import type { Detected, LaunchContext } from "../port.ts";
import { findOnPath, isProgram, shimTarget } from "./executable.ts";
import { packageRoot } from "./npm-package.ts";
import { partsOf } from "./program-paths.ts";

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

/** A program of the sandbox's own machine, which needs nothing of this one. */
export function findInside(name: string, programs: Programs): Cli | undefined {
  const path = programs.find(name);
  return path === undefined ? undefined : { path, needs: [] };
}

/** The path of Node on the machine of the agent. */
export function nodeOf({ programs }: Pick<LaunchContext, "programs">): string {
  return programs?.node ?? process.execPath;
}

/** The path of one of sluice's own programs on the machine of the agent. */
export function ownPath(path: string, { programs }: Pick<LaunchContext, "programs">): string {
  return programs?.own(path) ?? path;
}

function findReal(name: string): string | undefined {
  const found = isAbsolute(name) ? name : findOnPath(name);
  if (found === undefined || !isProgram(found)) return undefined;
  const real = realpathSync(found);
  const target = shimTarget(real);
  if (target === undefined || !isProgram(target)) return real;
  // The real file of the package is used. The shim itself would need links that a sandbox does not have.
  const program = realpathSync(target);
  return packageRoot(program) === undefined ? real : program;
}

interface DefinedCli {
  /** Whether the CLI is installed, with its version on request. If not, the command that installs it. */
  detect(options?: { withVersion?: boolean }): Promise<Detected>;
  /** The program. Throws if it is not installed; the error has the command that installs it. */
  require(context: Pick<LaunchContext, "isRehearsal" | "programs">): Cli;
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
    require({ isRehearsal = false, programs }) {
      const cli = programs ? findInside(name, programs) : findCli(name);
      if (cli) return cli;
      if (isRehearsal) return { path: name, needs: [] };
      const where = programs ? " on the sandbox's machine" : "";
      const detail = `${title} is not installed${where}. Install it${where && " there"}: ${install}`;
      throw new SluiceError("agent_not_installed", detail, { agent: name, install });
    },
  };
}

const versions = new Map<string, Promise<string | undefined>>();

/** The version is read once per file and modification time: some programs take seconds for it. */
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
