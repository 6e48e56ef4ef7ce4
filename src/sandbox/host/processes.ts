import { join } from "node:path";
import { createSpool, openSpool, type Spool } from "../../spool/index.ts";
import type { HostSandbox, NamedProcess, SandboxProcesses } from "../port.ts";

/** The processes of a sandbox on this machine, each with a spool in a folder of its name. */
export class HostProcesses implements SandboxProcesses {
  readonly #sandbox: Pick<HostSandbox, "spawn" | "signal">;
  readonly #folder: string;

  constructor(sandbox: Pick<HostSandbox, "spawn" | "signal">, folder: string) {
    this.#sandbox = sandbox;
    this.#folder = folder;
  }

  async start({ name, launch, streams, input }: NamedProcess): Promise<Spool> {
    const spool = await createSpool(join(this.#folder, name));
    try {
      if (input !== undefined) await spool.fill(input);
      if (streams === "named") await this.#sandbox.spawn({ launch, wrapper: spool.wrapper });
      else await spool.begin((wrapped) => this.#sandbox.spawn({ launch, ...wrapped }));
      return spool;
    } catch (error) {
      // The process may run although its start failed.
      const pid = await spool.pid();
      if (pid !== undefined) await this.#sandbox.signal(pid, "SIGKILL").catch(() => {});
      await spool.remove();
      throw error;
    }
  }

  open(name: string): Promise<Spool | undefined> {
    return openSpool(join(this.#folder, name));
  }

  async signal(name: string, signal: NodeJS.Signals): Promise<void> {
    const pid = await (await this.open(name))?.pid();
    if (pid !== undefined) await this.#sandbox.signal(pid, signal);
  }
}
