import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { toMappedPath } from "../../sandbox/host/files/paths.ts";
import type { Sandbox } from "../../sandbox/port.ts";
import { createSpool } from "../../spool/index.ts";
import type { TanStackExecResult, TanStackProcess, TanStackProcessOptions } from "./contract.ts";
import { BEGUN, Spawned } from "./spawned.ts";

export interface CommandsOptions {
  readonly sandbox: Sandbox;
  /** The folder of the commands' streams. */
  readonly folder: string;
  /** The environment of a command, read at the command's start. */
  readonly env: () => Readonly<Record<string, string>>;
  /** Files and folders of this host that the sandbox's programs need. */
  readonly needs: readonly string[];
  /** The addresses of this machine that a command may reach. */
  readonly hosts: () => readonly string[];
}

/** Shell commands in a sandbox. */
export class Commands implements TanStackProcess {
  readonly #options: CommandsOptions;
  readonly #running = new Set<Spawned>();

  constructor(options: CommandsOptions) {
    this.#options = options;
  }

  exec = async (command: string, options: TanStackProcessOptions = {}): Promise<TanStackExecResult> => {
    const spawned = await this.#start(command, options, { input: false });
    const [stdout, stderr, exitCode] = await Promise.all([
      collect(spawned.stdout),
      collect(spawned.stderr),
      spawned.wait(),
    ]);
    options.signal?.throwIfAborted();
    return { stdout, stderr, exitCode };
  };

  spawn = (command: string, options: TanStackProcessOptions = {}): Promise<Spawned> =>
    this.#start(command, options, { input: true });

  /** Ends the readers of all commands. The end of the sandbox has ended the processes. */
  abandon(): void {
    for (const spawned of this.#running) spawned.abandon();
  }

  async #start(
    command: string,
    { cwd, env = {}, signal }: TanStackProcessOptions,
    { input }: { input: boolean },
  ): Promise<Spawned> {
    signal?.throwIfAborted();
    const { sandbox, folder, needs, hosts } = this.#options;
    const spool = await createSpool(join(folder, randomUUID()));
    const argv = toArgv(command, { cwd: toFolder(cwd, sandbox), input });
    const launch = { argv, env: { ...this.#options.env(), ...env }, needs, hosts: hosts() };
    if (input) await spool.begin((wrapped) => sandbox.spawn({ launch, ...wrapped }));
    else await sandbox.spawn({ launch, wrapper: spool.wrapper });
    const spawned = await Spawned.of(spool, sandbox);
    this.#running.add(spawned);
    const stop = (): void => void spawned.end().catch(() => {});
    signal?.addEventListener("abort", stop, { once: true });
    if (signal?.aborted) stop();
    void spawned.wait().then(() => {
      signal?.removeEventListener("abort", stop);
      this.#running.delete(spawned);
    });
    return spawned;
  }
}

/** The program that runs a command. Without `input` the command's stdin is empty. */
function toArgv(command: string, { cwd, input }: { cwd: string; input: boolean }): string[] {
  const run = `printf ${BEGUN}; cd -- "$1" && exec /bin/sh -c "$2"${input ? "" : " </dev/null"}`;
  return ["/bin/sh", "-c", run, "sh", cwd, command];
}

/** The folder of a command. Without isolation, a path of the sandbox is mapped to the path on this host. */
export function toFolder(cwd: string | undefined, { paths, isolated }: Sandbox): string {
  if (cwd === undefined) return paths.workspace;
  if (isolated && cwd.startsWith("/")) return cwd;
  return toMappedPath(cwd, paths, paths.workspace).host;
}

async function collect(texts: AsyncIterable<string>): Promise<string> {
  const parts: string[] = [];
  for await (const text of texts) parts.push(text);
  return parts.join("");
}
