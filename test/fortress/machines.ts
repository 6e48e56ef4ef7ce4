import { chownSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Workbench, type Ended } from "../cli/workbench.ts";
import type { ServerUser } from "./fortress-bench.ts";

export const BIN = join(import.meta.dirname, "../../bin/sluice");

/** A machine that lacks a part of this one, made in a mount namespace that ends with the command. */
const SCRIPTS = {
  /** No bubblewrap: none of its files can be run. */
  "no bwrap":
    'for f in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin; do [ ! -e "$f/bwrap" ] || mount --bind /dev/null "$f/bwrap"; done',
  /** A pod whose runtime covers a part of /proc, as every one does by default. */
  "masked /proc": "mount -t tmpfs tmpfs /proc/irq",
} as const;

export type Machine = keyof typeof SCRIPTS;

/** Goes before a command line: it runs as that user. */
export function asUser({ ids }: ServerUser): string[] {
  return ids ? ["setpriv", `--reuid=${ids.uid}`, `--regid=${ids.gid}`, "--clear-groups"] : [];
}

/** Goes before a command line: it runs on that machine, as that user. */
export function on(machine: Machine, user: ServerUser): string[] {
  const isRoot = process.geteuid?.() === 0;
  const namespaces = isRoot ? ["--mount"] : ["--user", "--map-root-user", "--mount"];
  const script = `set -e; ${SCRIPTS[machine]}; exec "$@"`;
  return [
    "unshare",
    ...namespaces,
    "--propagation",
    "private",
    "/bin/sh",
    "-c",
    script,
    "sh",
    ...asUser(user),
  ];
}

/** No engine of this machine may help out. */
export const NO_DOCKER = { DOCKER_HOST: "unix:///nonexistent/docker.sock" };

/** `./bin/sluice` of one user on another machine, in a home of its own. */
export class Elsewhere extends Workbench {
  readonly #machine: Machine;
  readonly #user: ServerUser;

  constructor(machine: Machine, user: ServerUser) {
    super();
    this.#machine = machine;
    this.#user = user;
    this.give();
  }

  /** The files in its home belong to the user. */
  give(): void {
    const { ids } = this.#user;
    if (ids === undefined) return;
    const entries = readdirSync(this.folder, { recursive: true }) as string[];
    for (const path of ["", ...entries]) chownSync(join(this.folder, path), ids.uid, ids.gid);
  }

  argv(...args: string[]): string[] {
    return [...on(this.#machine, this.#user), process.execPath, ...args];
  }

  sluice(args: readonly string[], env: NodeJS.ProcessEnv = NO_DOCKER): Promise<Ended> {
    return this.run([], { argv: this.argv(BIN, ...args), env });
  }
}
