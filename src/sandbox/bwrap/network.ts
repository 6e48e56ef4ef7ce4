import { chown, mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createBridge, type Bridge } from "../bridge/bridge.ts";
import type { BridgePrograms } from "../bridge/programs.ts";
import type { Owner } from "../host/owner.ts";
import type { NetworkPolicy } from "../port.ts";
import type { Mount } from "./arguments.ts";
import { endTree, isResident, type Resident } from "./resident.ts";

export interface NetworkOptions {
  /** The sandbox's own folder. */
  readonly folder: string;
  readonly policy: NetworkPolicy;
  readonly owner: Owner | undefined;
  readonly programs: BridgePrograms | undefined;
  /** Starts the process that holds the namespace, and answers when it does. */
  startHolder(): Promise<Resident>;
  /** Starts a process inside that stays, and answers when it says so. */
  startInside(
    argv: readonly string[],
    options: { mounts: readonly Mount[]; enter: readonly string[] },
  ): Promise<Resident>;
  /** Starts a program outside, as a member of the sandbox. */
  startOutside(
    argv: readonly string[],
    options: { env: Record<string, string>; cwd: string },
  ): Promise<Resident>;
}

/**
 * The one network of a sandbox, which all of its processes share. A process that does nothing else holds its
 * namespace; the bridge's guest is brought in when something leads outside or somebody asks for a port.
 */
export class Network {
  readonly #options: NetworkOptions;
  readonly #file: string;
  readonly #ports: Bridge;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: NetworkOptions) {
    this.#options = options;
    this.#file = join(options.folder, "network.json");
    this.#ports = this.#bridge({ hosts: [], ports: true });
  }

  get #isShared(): boolean {
    return this.#options.policy.mode === "full";
  }

  /** What goes before bwrap so that a command is in it, and what the command has to know. `hosts` are named for good. */
  async join(
    hosts: readonly string[],
  ): Promise<{ prefix: readonly string[]; env: Readonly<Record<string, string>> }> {
    if (this.#isShared) return { prefix: [], env: {} };
    const state = await this.#make(hosts, { ports: false });
    return {
      prefix: toEnterPrefix(state.holder),
      env: this.#bridge({ hosts: state.hosts, ports: false }).env,
    };
  }

  async openPort(port: number): Promise<URL> {
    if (!this.#isShared) await this.#make([], { ports: true });
    return this.#ports.openPort(port);
  }

  get shortcomings(): readonly string[] {
    return this.#ports.shortcomings;
  }

  close(): Promise<void> {
    return this.#ports.close();
  }

  #bridge({ hosts, ports }: { hosts: readonly string[]; ports: boolean }): Bridge {
    const { folder, policy, programs } = this.#options;
    return createBridge({
      folder: join(folder, "bridge"),
      policy,
      extraHosts: hosts,
      ports,
      ...(programs === undefined ? {} : { programs }),
    });
  }

  /** One at a time: two commands at once must not make two networks. */
  #make(hosts: readonly string[], options: { ports: boolean }): Promise<NetworkState> {
    const made = this.#turn.then(() => this.#makeNow(hosts, options));
    this.#turn = made.catch(() => {});
    return made;
  }

  async #makeNow(hosts: readonly string[], asked: { ports: boolean }): Promise<NetworkState> {
    const known = await this.#read();
    const lives = known !== undefined && (await isResident(known.holder));
    const all = [...new Set([...(known?.hosts ?? []), ...hosts])];
    const isNew = all.length > (known?.hosts.length ?? 0);
    const ports = asked.ports || (known?.ports ?? false);
    const bridge = this.#bridge({ hosts: all, ports });
    const isDone = lives && !isNew && (!bridge.needed || (await isServed(known, bridge)));
    if (isDone) return known;
    if (lives) await stop(known);
    const holder = lives ? known.holder : await this.#options.startHolder();
    const served = bridge.needed ? await this.#serve(holder, bridge) : {};
    const state = { holder, hosts: all, ports, ...served };
    await this.#write(state);
    return state;
  }

  async #serve(holder: Resident, bridge: Bridge): Promise<Pick<NetworkState, "guest" | "gate">> {
    const { owner, folder, startInside, startOutside } = this.#options;
    await mkdir(join(folder, "bridge"), { recursive: true, mode: 0o700 });
    if (owner !== undefined) await chown(join(folder, "bridge"), owner.uid, owner.gid);
    const program = await bridge.start();
    const gate = program && (await startOutside(program.argv, { env: program.env, cwd: program.cwd }));
    const guest = await startInside(bridge.prefix, { mounts: bridge.needs, enter: toEnterPrefix(holder) });
    return gate === undefined ? { guest } : { guest, gate };
  }

  async #read(): Promise<NetworkState | undefined> {
    const text = await readFile(this.#file, "utf8").catch(() => undefined);
    return text === undefined ? undefined : (JSON.parse(text) as NetworkState);
  }

  async #write(state: NetworkState): Promise<void> {
    await writeFile(`${this.#file}.new`, JSON.stringify(state), { mode: 0o600 });
    await rename(`${this.#file}.new`, this.#file);
  }
}

interface NetworkState {
  readonly holder: Resident;
  /** What the harnesses have named, beside the policy. */
  readonly hosts: readonly string[];
  /** Whether somebody has asked for a port. */
  readonly ports: boolean;
  /** The bridge's end inside. */
  readonly guest?: Resident;
  /** The bridge's end outside, where something leads there. */
  readonly gate?: Resident;
}

async function isServed(state: NetworkState, bridge: Bridge): Promise<boolean> {
  const leadsOut = Object.keys(bridge.env).length > 0;
  return (await isResident(state.guest)) && (!leadsOut || (await isResident(state.gate)));
}

async function stop(state: NetworkState): Promise<void> {
  for (const resident of [state.guest, state.gate]) {
    if (await isResident(resident)) await endTree((resident as Resident).pid);
  }
}

function toEnterPrefix(holder: Resident): string[] {
  return ["nsenter", "--target", String(holder.pid), "--user", "--net", "--preserve-credentials"];
}
