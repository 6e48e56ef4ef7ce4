import type { Lending } from "../../contract/launch.ts";
import type { Bridge, BridgeStart } from "../bridge/bridge.ts";
import { keepTrust, toTrustFolder } from "../bridge/trust.ts";
import type { ExecSpec } from "./exec/api.ts";
import { askExec } from "./exec/ask.ts";
import { hostNode, Image } from "./image.ts";
import { toBridge, type PlanSources } from "./plan.ts";

export interface NetworkOptions {
  readonly sources: PlanSources;
  /** Starts a program on this host, as a member of the sandbox. */
  startOutside(start: BridgeStart): Promise<void>;
  /** Where and as whom something runs in the container. */
  place(container: string, env: Readonly<Record<string, string>>): Promise<Omit<ExecSpec, "argv">>;
}

/** What leads out of a container whose own network leads nowhere, and in to its ports. */
export class ContainerNetwork {
  readonly #options: NetworkOptions;
  readonly #ports: Bridge;
  #hasPorts = false;

  constructor(options: NetworkOptions) {
    this.#options = options;
    this.#ports = toBridge(options.sources, []);
  }

  get shortcomings(): readonly string[] {
    return this.#ports.shortcomings;
  }

  get lends(): boolean {
    const { mode } = this.#options.sources.record.network;
    return mode === "allow" || mode === "loopback";
  }

  /** From here on the way out may ask there for secrets. Answers what the container has to have for that. */
  lend(lending: Lending | undefined): string[] {
    if (lending === undefined || !this.lends) return [];
    const { path } = this.#options.sources.folder;
    keepTrust(path, lending);
    return [toTrustFolder(path)];
  }

  /** What a process has to know in order to get out. */
  env(hosts: readonly string[]): Readonly<Record<string, string>> {
    return toBridge(this.#options.sources, hosts).env;
  }

  /** Sees to the far end; one that is at work already stays. */
  async open(hosts: readonly string[]): Promise<void> {
    const start = await toBridge(this.#options.sources, hosts).start();
    if (start !== undefined) await this.#options.startOutside(start);
  }

  /** Where nothing leads outside, the near end is only started once a port is asked for. */
  async onStarted(container: string, hosts: readonly string[]): Promise<void> {
    if (!this.#hasPorts && Object.keys(this.env(hosts)).length === 0) return;
    await this.open(hosts);
    await this.#startNearEnd(container, hosts);
  }

  /** `running` are the command lines in the container. */
  async openPort(
    port: number,
    inside: { container: string; hosts: readonly string[]; running: readonly string[] },
  ): Promise<URL> {
    this.#hasPorts = true;
    const hasNearEnd = inside.running.some((line) => line.includes("/run/sluice-bridge/"));
    if (!hasNearEnd) await this.#startNearEnd(inside.container, inside.hosts);
    return this.#ports.openPort(port);
  }

  close(): Promise<void> {
    return this.#ports.close();
  }

  async #startNearEnd(container: string, hosts: readonly string[]): Promise<void> {
    const { sources, place } = this.#options;
    const bridge = toBridge(sources, hosts);
    const image = await Image.find(sources.engine, sources.record.image);
    const node = (await image.node()) ?? hostNode();
    const argv = bridge.prefix.map((word) => (word === hostNode() ? node : word));
    const spec = { ...(await place(container, bridge.env)), argv: [...argv, "echo", "0"] };
    await askExec(sources.engine.address, spec);
  }
}
