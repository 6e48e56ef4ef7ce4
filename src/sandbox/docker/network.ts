import type { Lending } from "../../contract/process.ts";
import { keepTrust, toTrustFolder } from "../egress/certificate.ts";
import type { Egress, EgressHostStart } from "../egress/egress.ts";
import { PROGRAM_FOLDER } from "../egress/protocol.ts";
import type { ExecTarget } from "./exec/api.ts";
import { askExec } from "./exec/command.ts";
import { hostNode, Image } from "./image.ts";
import { createContainerEgress, type PlanSources } from "./plan.ts";

interface NetworkOptions {
  readonly sources: PlanSources;
  /** Starts a program on this host, as a member of the sandbox. */
  startOutside(start: EgressHostStart): Promise<void>;
  /** The container, user and variables of a command. */
  target(container: string, env: Readonly<Record<string, string>>): Promise<ExecTarget>;
}

/** The connections into a container's ports, and out of a container that has no network of the engine. */
export class ContainerNetwork {
  readonly #options: NetworkOptions;
  readonly #ports: Egress;
  #hasPorts = false;

  constructor(options: NetworkOptions) {
    this.#options = options;
    this.#ports = createContainerEgress(options.sources, []);
  }

  get shortcomings(): readonly string[] {
    return this.#ports.shortcomings;
  }

  /** Whether a model gateway can be reached from inside. */
  get leads(): boolean {
    return this.#options.sources.record.network.mode === "allow";
  }

  get lends(): boolean {
    const { mode } = this.#options.sources.record.network;
    return mode === "allow" || mode === "loopback";
  }

  /** From now on the egress host may ask this lending for secrets. Returns the mounts that the container needs for it. */
  lend(lending: Lending | undefined): string[] {
    if (lending === undefined || !this.lends) return [];
    const { path } = this.#options.sources.folder;
    keepTrust(path, lending);
    return [toTrustFolder(path)];
  }

  /** The variables that lead a process to the egress proxy. */
  env(hosts: readonly string[]): Readonly<Record<string, string>> {
    return createContainerEgress(this.#options.sources, hosts).env;
  }

  /** Starts the egress host; one that runs already with the same settings stays. */
  async open(hosts: readonly string[]): Promise<void> {
    const start = await createContainerEgress(this.#options.sources, hosts).start();
    if (start !== undefined) await this.#options.startOutside(start);
  }

  /** Starts both ends of the egress proxy. If no host is allowed, only the guest starts, with the first port. */
  async onStarted(container: string, hosts: readonly string[]): Promise<void> {
    if (!this.#hasPorts && Object.keys(this.env(hosts)).length === 0) return;
    await this.open(hosts);
    await this.#startGuest(container, hosts);
  }

  /** Opens a port, and starts the egress guest unless it is among `running`, the command lines in the container. */
  async openPort(
    port: number,
    inside: { container: string; hosts: readonly string[]; running: readonly string[] },
  ): Promise<URL> {
    this.#hasPorts = true;
    const hasGuest = inside.running.some((line) => line.includes(`${PROGRAM_FOLDER}/`));
    if (!hasGuest) await this.#startGuest(inside.container, inside.hosts);
    return this.#ports.openPort(port);
  }

  close(): Promise<void> {
    return this.#ports.close();
  }

  async #startGuest(container: string, hosts: readonly string[]): Promise<void> {
    const { sources, target } = this.#options;
    const egress = createContainerEgress(sources, hosts);
    const image = await Image.find(sources.engine, sources.record.image);
    const node = (await image.node()) ?? hostNode();
    const argv = egress.prefix.map((word) => (word === hostNode() ? node : word));
    const spec = { ...(await target(container, egress.env)), argv: [...argv, "echo", "0"] };
    await askExec(sources.engine.address, spec);
  }
}
