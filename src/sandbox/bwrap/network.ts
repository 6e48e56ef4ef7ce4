import { closeSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { chown, mkdir, readFile, rename, writeFile } from "../../disk/onTheSpot.ts";
import type { Lending } from "../../contract/launch.ts";
import { createBridge, type Bridge } from "../bridge/bridge.ts";
import type { BridgePrograms } from "../bridge/programs.ts";
import { findTrust, keepTrust } from "../bridge/trust.ts";
import type { Owner } from "../host/owner.ts";
import type { NetworkPolicy } from "../port.ts";
import type { Mount } from "./arguments.ts";
import { endTree, isResident, type Resident } from "./resident.ts";
import { Tie } from "./tie.ts";

/** How a command gets into the network. */
export interface Way {
  /** Goes before bwrap. */
  readonly prefix: readonly string[];
  /** To be inherited, so that the network lasts as long as the command and all that it leaves behind. */
  readonly tie?: number;
  /** What its programs have to know. */
  readonly env: Readonly<Record<string, string>>;
  /** What they have to see. */
  readonly mounts: readonly Mount[];
}

export interface NetworkOptions {
  /** The sandbox's own folder. */
  readonly folder: string;
  readonly policy: NetworkPolicy;
  readonly owner: Owner | undefined;
  readonly programs: BridgePrograms | undefined;
  /** Keeps who shares the host's network from its abstract sockets, where that is possible. */
  readonly scope: readonly string[] | undefined;
  startHolder(stdin: number): Promise<{ holder: Resident; waiting: Resident }>;
  /** Starts a process inside that stays. */
  startInside(
    argv: readonly string[],
    options: { mounts: readonly Mount[]; way: Way; stdin: number },
  ): Promise<Resident>;
  /** Starts a program outside, as a member of the sandbox. */
  startOutside(
    argv: readonly string[],
    options: { env: Readonly<Record<string, string>>; cwd: string },
  ): Promise<Resident>;
}

const NO_UNIX_SOCKETS =
  "no program can make UNIX sockets: under the full network they would reach those of the host (Linux 6.12 with perl or python3 keeps them apart)";

/** How long the bridge's end outside stays when nobody is there. */
const GATE_GRACE_MS = 5_000;
/** How long the network stays after its last command ended, while we are there. */
const LINGER_MS = 3_000;

/**
 * The one network of a sandbox, which all of its processes share. A process that does nothing else holds its
 * namespace while there is another; the bridge's guest joins it when something leads outside or a port is asked for.
 */
export class Network {
  readonly #options: NetworkOptions;
  readonly #file: string;
  readonly #tie: Tie;
  readonly #ports: Bridge;
  #turn: Promise<unknown> = Promise.resolve();
  #last: { readonly tie: number; readonly timer: NodeJS.Timeout } | undefined;

  constructor(options: NetworkOptions) {
    this.#options = options;
    this.#file = join(options.folder, "network.json");
    this.#tie = new Tie(join(options.folder, "tie"));
    this.#ports = this.#bridge({ hosts: [], ports: true });
  }

  /** Keeps the network there while something is started in it. `hosts` are named for good. */
  async use<T>(hosts: readonly string[], start: (way: Way) => Promise<T>): Promise<T> {
    if (this.#isShared) return start({ prefix: this.#options.scope ?? [], env: {}, mounts: [] });
    const { tie, state } = await this.#inTurn(() => this.#make(hosts));
    try {
      const { env, shared: mounts } = this.#bridge({ hosts: state.hosts, ports: false });
      return await start({ prefix: toEnterPrefix(state.holder), tie, env, mounts });
    } finally {
      this.#linger(tie);
    }
  }

  /** From here on the way out may ask there for secrets. */
  lend(lending: Lending | undefined): void {
    if (lending !== undefined && this.lends) keepTrust(this.#options.folder, lending);
  }

  get lends(): boolean {
    const { mode } = this.#options.policy;
    return mode === "allow" || mode === "loopback";
  }

  async openPort(port: number): Promise<URL> {
    if (!this.#isShared) await this.#inTurn(() => this.#askForPorts());
    return this.#ports.openPort(port);
  }

  get shortcomings(): readonly string[] {
    const open = this.#isShared && this.#options.scope === undefined ? [NO_UNIX_SOCKETS] : [];
    return [...this.#ports.shortcomings, ...open];
  }

  close(): Promise<void> {
    this.#letGo();
    return this.#ports.close();
  }

  /** The next command may come soon. Should we end before, the kernel lets go for us. */
  #linger(tie: number): void {
    this.#letGo();
    const timer = setTimeout(() => this.#letGo(), LINGER_MS).unref();
    this.#last = { tie, timer };
  }

  #letGo(): void {
    if (this.#last === undefined) return;
    clearTimeout(this.#last.timer);
    closeSync(this.#last.tie);
    this.#last = undefined;
  }

  get #isShared(): boolean {
    return this.#options.policy.mode === "full";
  }

  #bridge({ hosts, ports }: { hosts: readonly string[]; ports: boolean }): Bridge {
    const { folder, policy, programs } = this.#options;
    return createBridge({
      folder: join(folder, "bridge"),
      policy,
      extraHosts: hosts,
      ports,
      graceMs: GATE_GRACE_MS,
      trust: folder,
      ...(programs === undefined ? {} : { programs }),
    });
  }

  /** One at a time: two commands at once must not make two networks. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => {});
    return done;
  }

  async #make(named: readonly string[]): Promise<{ tie: number; state: HeldState }> {
    const known = await this.#read();
    const held = await this.#hold(known);
    const hosts = [...new Set([...known.hosts, ...named])];
    try {
      const lending = findTrust(this.#options.folder)?.lending;
      const isSame =
        hosts.length === known.hosts.length && held.isOld && isDeepStrictEqual(lending, known.lending);
      const bridge = this.#bridge({ hosts, ports: known.ports });
      if (isSame && (await isServed(known, bridge))) return { tie: held.tie, state: held.state };
      await stop(known);
      const served = await this.#serve(held.state, bridge);
      const state = { ...held.state, hosts, ...served, ...(lending === undefined ? {} : { lending }) };
      await this.#write(state);
      return { tie: held.tie, state };
    } catch (error) {
      closeSync(held.tie);
      throw error;
    }
  }

  /** A network that only who comes later needs is made by them. */
  async #askForPorts(): Promise<void> {
    const known = await this.#read();
    if (known.ports) return;
    await this.#write({ ...known, ports: true });
    const tie = isHeld(known) ? await this.#tie.hold(known.waiting) : undefined;
    if (tie === undefined) return;
    closeSync(tie);
    const made = await this.#make([]);
    closeSync(made.tie);
  }

  async #hold(known: NetworkState): Promise<{ tie: number; state: HeldState; isOld: boolean }> {
    const { hosts, ports } = known;
    const old = isHeld(known) ? await this.#tie.hold(known.waiting) : undefined;
    if (old !== undefined) return { tie: old, state: known as HeldState, isOld: true };
    const { tie, waiting, holder } = await this.#holdAnew();
    return { tie, state: { holder, waiting, hosts, ports }, isOld: false };
  }

  async #holdAnew(): Promise<{ tie: number; holder: Resident; waiting: Resident }> {
    const tie = await this.#tie.make();
    try {
      return { tie, ...(await this.#waiting((stdin) => this.#options.startHolder(stdin))) };
    } catch (error) {
      closeSync(tie);
      throw error;
    }
  }

  async #serve(state: HeldState, bridge: Bridge): Promise<Pick<NetworkState, "guest" | "gate">> {
    if (!bridge.needed) return {};
    const { owner, folder, startInside, startOutside } = this.#options;
    await mkdir(join(folder, "bridge"), { recursive: true, mode: 0o700 });
    if (owner !== undefined) await chown(join(folder, "bridge"), owner.uid, owner.gid);
    const program = await bridge.start();
    const gate = program && (await startOutside(program.argv, { env: program.env, cwd: program.cwd }));
    const way = { prefix: toEnterPrefix(state.holder), env: {}, mounts: [] };
    const guest = await this.#waiting((stdin) =>
      startInside(bridge.prefix, { mounts: bridge.needs, way, stdin }),
    );
    return gate === undefined ? { guest } : { guest, gate };
  }

  async #waiting<T>(start: (stdin: number) => Promise<T>): Promise<T> {
    const stdin = this.#tie.read();
    try {
      return await start(stdin);
    } finally {
      closeSync(stdin);
    }
  }

  async #read(): Promise<NetworkState> {
    const text = await readFile(this.#file, "utf8").catch(() => undefined);
    return text === undefined ? { hosts: [], ports: false } : (JSON.parse(text) as NetworkState);
  }

  async #write(state: NetworkState): Promise<void> {
    await writeFile(`${this.#file}.new`, JSON.stringify(state), { mode: 0o600 });
    await rename(`${this.#file}.new`, this.#file);
  }
}

interface NetworkState {
  /** Whose namespace it is. */
  readonly holder?: Resident;
  /** The holder's process that waits at the tie. */
  readonly waiting?: Resident;
  /** What the harnesses have named, beside the policy. */
  readonly hosts: readonly string[];
  /** Whether somebody has asked for a port. */
  readonly ports: boolean;
  /** Where the end outside was told to ask for secrets. */
  readonly lending?: Lending;
  /** The bridge's end inside. */
  readonly guest?: Resident;
  /** The bridge's end outside, where something leads there. */
  readonly gate?: Resident;
}

type HeldState = NetworkState & { readonly holder: Resident; readonly waiting: Resident };

function isHeld(state: NetworkState): state is HeldState {
  return state.holder !== undefined && state.waiting !== undefined;
}

async function isServed(state: NetworkState, bridge: Bridge): Promise<boolean> {
  if (!bridge.needed) return true;
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
