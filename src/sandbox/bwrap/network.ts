import { closeSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { GatewayLaunch, Lending } from "../../contract/process.ts";
import { defined } from "../../contract/own-keys.ts";
import { chown, mkdir, readFile, rename, writeFile } from "../../disk/sync-files.ts";
import { findTrust, keepTrust } from "../egress/certificate.ts";
import { createEgress, type Egress, type EgressPrograms } from "../egress/egress.ts";
import { findGateway } from "../egress/gateway.ts";
import { SOCKET_FOLDER } from "../egress/protocol.ts";
import { endTree } from "../host/processes/kill.ts";
import { isAlive, type ProcessIdentity } from "../host/processes/procfs.ts";
import type { NetworkPolicy, Owner } from "../port.ts";
import type { NetworkEntry } from "./arguments.ts";
import { type Launcher, ResidentFailure } from "./launcher.ts";
import { Tie } from "./resident.ts";

interface NetworkOptions {
  readonly folder: string;
  readonly policy: NetworkPolicy;
  readonly owner: Owner | undefined;
  readonly programs: EgressPrograms | undefined;
  /** The command prefix that blocks the host's abstract sockets, if this host can block them. */
  readonly scope: readonly string[] | undefined;
  readonly launcher: Launcher;
}

const NO_UNIX_SOCKETS =
  "no program can make UNIX sockets: under the full network they would reach those of the host (Linux 6.12 with perl or python3 keeps them apart)";

/** How long the egress host runs without connections. */
const HOST_GRACE_MS = 5_000;
/** How long this server keeps the network after its last command. */
const LINGER_MS = 3_000;
/** The most attempts to start the residents of a network. */
const RESIDENT_TRIES = 3;

/**
 * The one network of a sandbox, shared by all of its processes. A holder process keeps the namespace, and the egress
 * guest joins it when a host is allowed or a port is asked for. Both live as long as a command holds the tie, a FIFO
 * whose writing end every command has open: when the last end closes, the holder and the guest end.
 */
export class Network {
  readonly #options: NetworkOptions;
  readonly #file: string;
  readonly #tie: Tie;
  readonly #ports: Egress;
  #last: Promise<unknown> = Promise.resolve();
  #lingering: { readonly tie: number; readonly timer: NodeJS.Timeout } | undefined;

  constructor(options: NetworkOptions) {
    this.#options = options;
    this.#file = join(options.folder, "network.json");
    this.#tie = new Tie(join(options.folder, "tie"));
    this.#ports = this.#egress({ hosts: [], ports: true });
  }

  /** Starts a command in the network, which is made if it is missing. `hosts` stay allowed for all later commands. */
  async use<T>(hosts: readonly string[], start: (entry: NetworkEntry) => Promise<T>): Promise<T> {
    if (this.#isHostNetwork) return start({ prefix: this.#options.scope ?? [], env: {}, mounts: [] });
    const { tie, state } = await this.#exclusive(() => this.#ensure(hosts));
    try {
      const { env, shared: mounts } = this.#egress({ hosts: state.hosts, ports: false });
      return await start({ prefix: toEnterPrefix(state.holder), tie, env, mounts });
    } finally {
      this.#linger(tie);
    }
  }

  /** From now on the egress host may ask this lending for secrets. */
  lend(lending: Lending | undefined): void {
    if (lending !== undefined && this.lends) keepTrust(this.#options.folder, lending);
  }

  /** Whether a model gateway can be reached from inside. */
  get leads(): boolean {
    return this.#options.policy.mode === "allow";
  }

  get lends(): boolean {
    const { mode } = this.#options.policy;
    return mode === "allow" || mode === "loopback";
  }

  async openPort(port: number): Promise<URL> {
    if (!this.#isHostNetwork) await this.#exclusive(() => this.#askForPorts());
    return this.#ports.openPort(port);
  }

  get shortcomings(): readonly string[] {
    const blocked = this.#isHostNetwork && this.#options.scope === undefined ? [NO_UNIX_SOCKETS] : [];
    return [...this.#ports.shortcomings, ...blocked];
  }

  close(): Promise<void> {
    this.#letGo();
    return this.#ports.close();
  }

  /** Keeps the tie for a while, as the next command may come soon. The kernel closes it with this process. */
  #linger(tie: number): void {
    this.#letGo();
    const timer = setTimeout(() => this.#letGo(), LINGER_MS).unref();
    this.#lingering = { tie, timer };
  }

  #letGo(): void {
    if (this.#lingering === undefined) return;
    clearTimeout(this.#lingering.timer);
    closeSync(this.#lingering.tie);
    this.#lingering = undefined;
  }

  get #isHostNetwork(): boolean {
    return this.#options.policy.mode === "full";
  }

  #egress({ hosts, ports }: { hosts: readonly string[]; ports: boolean }): Egress {
    const { folder, policy, programs } = this.#options;
    return createEgress({
      folder: join(folder, SOCKET_FOLDER),
      policy,
      extraHosts: hosts,
      ports,
      graceMs: HOST_GRACE_MS,
      trust: folder,
      ...(programs === undefined ? {} : { programs }),
    });
  }

  /** Runs one work at a time: two commands at once must not make two networks. */
  #exclusive<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => {});
    return done;
  }

  /** Makes the network if it is missing. A resident that is killed at its start is started again. */
  async #ensure(hosts: readonly string[]): Promise<{ tie: number; state: HeldState }> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#ensureOnce(hosts);
      } catch (error) {
        if (!(error instanceof ResidentFailure) || tries === RESIDENT_TRIES) throw error;
      }
    }
  }

  async #ensureOnce(named: readonly string[]): Promise<{ tie: number; state: HeldState }> {
    const known = await this.#read();
    const held = await this.#hold(known);
    const hosts = [...new Set([...known.hosts, ...named])];
    try {
      const lending = findTrust(this.#options.folder)?.lending;
      const gateway = findGateway(this.#options.folder);
      const isSame =
        hosts.length === known.hosts.length &&
        held.isOld &&
        isDeepStrictEqual(lending, known.lending) &&
        isDeepStrictEqual(gateway, known.gateway);
      const egress = this.#egress({ hosts, ports: known.ports });
      if (isSame && (await isServed(known, egress))) return { tie: held.tie, state: held.state };
      await stop(known);
      const served = await this.#serve(held.state, egress);
      const state = { ...held.state, hosts, ...served, ...defined({ lending, gateway }) };
      await this.#write(state);
      return { tie: held.tie, state };
    } catch (error) {
      closeSync(held.tie);
      throw error;
    }
  }

  /** Adds the egress guest to a running network. If no network runs, the next command makes it with its guest. */
  async #askForPorts(): Promise<void> {
    const known = await this.#read();
    if (known.ports) return;
    await this.#write({ ...known, ports: true });
    const tie = isHeld(known) ? await this.#tie.hold(known.waiting) : undefined;
    if (tie === undefined) return;
    // This end was only opened to see whether the network runs: `#ensure` opens its own.
    closeSync(tie);
    const made = await this.#ensure([]);
    closeSync(made.tie);
  }

  async #hold(known: NetworkState): Promise<{ tie: number; state: HeldState; isOld: boolean }> {
    const { hosts, ports } = known;
    const old = isHeld(known) ? await this.#tie.hold(known.waiting) : undefined;
    if (old !== undefined) return { tie: old, state: known as HeldState, isOld: true };
    const { tie, waiting, holder } = await this.#holdAnew();
    return { tie, state: { holder, waiting, hosts, ports }, isOld: false };
  }

  async #holdAnew(): Promise<{ tie: number; holder: ProcessIdentity; waiting: ProcessIdentity }> {
    const tie = await this.#tie.make();
    try {
      return { tie, ...(await this.#withReader((stdin) => this.#options.launcher.startHolder(stdin))) };
    } catch (error) {
      closeSync(tie);
      throw error;
    }
  }

  async #serve(state: HeldState, egress: Egress): Promise<Pick<NetworkState, "guest" | "host">> {
    if (!egress.needed) return {};
    const { owner, folder, launcher } = this.#options;
    const sockets = join(folder, SOCKET_FOLDER);
    await mkdir(sockets, { recursive: true, mode: 0o700 });
    if (owner !== undefined) await chown(sockets, owner.uid, owner.gid);
    const program = await egress.start();
    const host = program && (await launcher.startOutside(program));
    const entry = { prefix: toEnterPrefix(state.holder), env: {}, mounts: egress.needs };
    const guest = await this.#withReader((stdin) => launcher.startInside(egress.prefix, entry, stdin));
    return host === undefined ? { guest } : { guest, host };
  }

  async #withReader<T>(start: (stdin: number) => Promise<T>): Promise<T> {
    const stdin = this.#tie.openReader();
    try {
      return await start(stdin);
    } finally {
      closeSync(stdin);
    }
  }

  async #read(): Promise<NetworkState> {
    const text = await readFile(this.#file, "utf8").catch(() => undefined);
    if (text === undefined) return { hosts: [], ports: false };
    const { gate, ...state } = JSON.parse(text) as NetworkState & { gate?: ProcessIdentity };
    // Earlier versions wrote the egress host as `gate`.
    return gate === undefined ? state : { host: gate, ...state };
  }

  async #write(state: NetworkState): Promise<void> {
    await writeFile(`${this.#file}.new`, JSON.stringify(state), { mode: 0o600 });
    await rename(`${this.#file}.new`, this.#file);
  }
}

interface NetworkState {
  /** The process that holds the namespace. */
  readonly holder?: ProcessIdentity;
  /** The holder's child, which waits at the tie. */
  readonly waiting?: ProcessIdentity;
  /** Hosts that harnesses have named, in addition to the policy's. */
  readonly hosts: readonly string[];
  /** Whether a port was asked for. */
  readonly ports: boolean;
  /** The lending that the egress host was started with. */
  readonly lending?: Lending;
  /** The settings of the model gateway that the egress host was started with. */
  readonly gateway?: GatewayLaunch;
  readonly guest?: ProcessIdentity;
  /** The egress host, if any host is allowed. */
  readonly host?: ProcessIdentity;
}

type HeldState = NetworkState & { readonly holder: ProcessIdentity; readonly waiting: ProcessIdentity };

function isHeld(state: NetworkState): state is HeldState {
  return state.holder !== undefined && state.waiting !== undefined;
}

async function isServed(state: NetworkState, egress: Egress): Promise<boolean> {
  if (!egress.needed) return true;
  const leadsOut = Object.keys(egress.env).length > 0;
  return (await isAlive(state.guest)) && (!leadsOut || (await isAlive(state.host)));
}

async function stop(state: NetworkState): Promise<void> {
  for (const resident of [state.guest, state.host]) {
    if (await isAlive(resident)) await endTree((resident as ProcessIdentity).pid);
  }
}

function toEnterPrefix(holder: ProcessIdentity): string[] {
  return ["nsenter", "--target", String(holder.pid), "--user", "--net", "--preserve-credentials"];
}
