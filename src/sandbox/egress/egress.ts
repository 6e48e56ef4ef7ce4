import { existsSync, realpathSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { NetworkPolicy } from "../port.ts";
import {
  parseHostPatterns,
  parsePrivateNames,
  toTunnels,
  type HostPattern,
  type Tunnel,
} from "./allow-list.ts";
import { findTrust, toTrustEnvironment, toTrustFolder, TRUST_PATH } from "./certificate.ts";
import { isLoopbackHost } from "./connection.ts";
import { findGateway, GATEWAY_HOST, GATEWAY_TUNNEL, toRecordsFile } from "./gateway.ts";
import { openPort, type OpenPort } from "./open-port.ts";
import {
  INSIDE_FOLDER,
  PROGRAM_FOLDER,
  SETTINGS_VARIABLE,
  type GatewaySettings,
  type GuestSettings,
  type HostSettings,
} from "./protocol.ts";

export interface EgressOptions {
  /**
   * The sandbox's own folder for the sockets of both ends: made with mode 0700 where it is missing, owned by the
   * sandbox's user.
   */
  readonly folder: string;
  readonly policy: NetworkPolicy;
  /** Hosts that the harness and its tools need. `loopback` allows only those of this machine, `none` allows none. */
  readonly extraHosts?: readonly string[];
  /** Whether ports inside are reachable even if no host is allowed; true under `allow` by default. */
  readonly ports?: boolean;
  /** The port of the proxy inside. */
  readonly proxyPort?: number;
  /** Addresses by name, as in a hosts file. They are checked like any others. */
  readonly names?: Readonly<Record<string, readonly string[]>>;
  /** How long the egress host runs without a connection from the sandbox. */
  readonly graceMs?: number;
  /** Makes fetch and the default agents of Node before 22.21 use the proxy, by NODE_OPTIONS; off by default. */
  readonly nodePreload?: boolean;
  /** The folder that `keepTrust` was called with, for lent secrets. */
  readonly trust?: string;
  readonly programs?: EgressPrograms;
}

export interface Egress {
  /** Whether the sandbox needs an egress proxy. Without one there is nothing to mount and nothing to start. */
  readonly needed: boolean;
  /** Variables for the processes inside. */
  readonly env: Readonly<Record<string, string>>;
  /**
   * The prefix of a command inside, which starts the egress guest. Then the command replaces it, so that signals reach
   * the command.
   */
  readonly prefix: readonly string[];
  /** Mounts for the inside. */
  readonly needs: readonly Mount[];
  /** The mounts that all processes need, not only the egress guest. */
  readonly shared: readonly Mount[];
  /** Requests that cannot be met, in words. */
  readonly shortcomings: readonly string[];
  /**
   * The egress host's command, to be started detached before each process, as a member of the sandbox. If an egress host
   * with the same settings runs, the new one ends at once. If the settings differ, the new one replaces it.
   */
  start(): Promise<EgressHostStart | undefined>;
  /** The URL of a port inside, on this host. */
  openPort(port: number): Promise<URL>;
  /** Closes the ports of `openPort`. The egress host stays. */
  close(): Promise<void>;
}

/** A file or folder of this host, and its path inside the sandbox. */
export interface Mount {
  readonly host: string;
  readonly inside: string;
  readonly writable: boolean;
}

export interface EgressHostStart {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
}

/**
 * The egress proxy of a sandbox with a network namespace of its own: the egress host outside, the egress guest inside.
 */
export function createEgress(options: EgressOptions): Egress {
  const { folder, policy, proxyPort: preferred = 47_128, graceMs = 30_000, names } = options;
  const patterns = toPatterns(policy, options.extraHosts);
  const privates = parsePrivateNames(policy.mode === "allow" ? policy.private : undefined);
  const gateway = toGateway(options);
  const tunnels = gateway === undefined ? toTunnels(patterns) : withGateway(toTunnels(patterns));
  const proxyPort = patterns.length > 0 ? toFreePort(preferred, tunnels) : undefined;
  const isFull = policy.mode === "full";
  const ports = options.ports ?? policy.mode === "allow";
  const needed = !isFull && (ports || patterns.length > 0);
  const programs = options.programs ?? findEgressPrograms();
  const preload = options.nodePreload === true && proxyPort !== undefined ? programs.preload : undefined;
  const opened = new Map<number, Promise<OpenPort>>();
  const leadsOut = needed && proxyPort !== undefined;
  const trust = leadsOut && options.trust !== undefined ? findTrust(options.trust) : undefined;
  const shared = trust === undefined ? [] : [toTrustMount(options.trust as string)];

  return {
    needed,
    env: leadsOut
      ? {
          ...toProxyEnvironment(proxyPort, preload !== undefined),
          ...(trust === undefined ? {} : toTrustEnvironment()),
        }
      : {},
    prefix: needed ? buildPrefix({ tunnels, ...(proxyPort === undefined ? {} : { proxyPort }) }) : [],
    needs: needed ? [...buildMounts(folder, programs.guest, preload), ...shared] : [],
    shared,
    shortcomings: toShortcomings(tunnels),
    async start() {
      if (!needed) return undefined;
      await mkdir(folder, { recursive: true, mode: 0o700 });
      if (proxyPort === undefined) return undefined;
      const own = parseHostPatterns(options.extraHosts);
      const settings: HostSettings = {
        patterns,
        ...(privates.length === 0 ? {} : { privates }),
        graceMs,
        ...(names === undefined ? {} : { names }),
        ...(trust === undefined ? {} : { lent: { ...trust, own } }),
        ...(gateway === undefined ? {} : { gateway }),
      };
      return {
        argv: toKept([process.execPath, programs.host]),
        env: { [SETTINGS_VARIABLE]: JSON.stringify(settings), ...readOwnTrust() },
        cwd: folder,
      };
    },
    async openPort(port) {
      if (isFull) return new URL(`http://127.0.0.1:${port}`);
      const opening = opened.get(port) ?? openPort({ folder, port });
      opened.set(port, opening);
      opening.catch(() => opened.delete(port));
      return (await opening).url;
    },
    async close() {
      const ports = [...opened.values()];
      opened.clear();
      await Promise.all(ports.map(async (port) => (await port).close()));
    },
  };
}

/** The gateway's settings, where a launch has named it among its hosts. */
function toGateway({ trust, extraHosts, policy }: EgressOptions): GatewaySettings | undefined {
  const isNamed = trust !== undefined && extraHosts?.includes(GATEWAY_HOST) === true;
  const launch = isNamed && policy.mode === "allow" ? findGateway(trust) : undefined;
  return launch && { launch, records: toRecordsFile(trust as string) };
}

/** The gateway's own port inside precedes an allowed one of the same number. */
function withGateway(tunnels: readonly Tunnel[]): Tunnel[] {
  return [GATEWAY_TUNNEL, ...tunnels.filter(({ port }) => port !== GATEWAY_TUNNEL.port)];
}

/** The egress host trusts the certificates that the server trusts. */
export function readOwnTrust(): Record<string, string> {
  const file = process.env["NODE_EXTRA_CA_CERTS"];
  return file === undefined ? {} : { NODE_EXTRA_CA_CERTS: file };
}

function toTrustMount(folder: string): Mount {
  return { host: toTrustFolder(folder), inside: TRUST_PATH, writable: false };
}

const GUEST_PATH = `${PROGRAM_FOLDER}/guest.js`;

function toPatterns(policy: NetworkPolicy, extraHosts: readonly string[] | undefined): HostPattern[] {
  if (policy.mode === "allow") return parseHostPatterns(policy.hosts, extraHosts);
  const patterns = parseHostPatterns(extraHosts);
  return policy.mode === "loopback" ? patterns.filter(({ host }) => isLoopbackHost(host)) : [];
}

function toFreePort(preferred: number, tunnels: readonly Tunnel[]): number {
  return tunnels.some(({ port }) => port === preferred) ? toFreePort(preferred + 1, tunnels) : preferred;
}

/** Starts the guest without a parent, in a session of its own, and waits for the end of its output: then it listens. */
const PREFIX_SCRIPT = `_sluice_said=$(NODE_OPTIONS= $(command -v setsid) "$0" "$1" "$2" < /dev/null 2>&1 &)
[ -z "$_sluice_said" ] || echo "$_sluice_said" >&2
unset _sluice_said
shift 2
exec "$@"`;

function buildPrefix(settings: GuestSettings): string[] {
  const node = realpathSync(process.execPath);
  return ["/bin/sh", "-c", PREFIX_SCRIPT, node, GUEST_PATH, JSON.stringify(settings)];
}

function buildMounts(folder: string, guest: string, preload: string | undefined): Mount[] {
  const node = realpathSync(process.execPath);
  return [
    { host: folder, inside: INSIDE_FOLDER, writable: true },
    { host: guest, inside: GUEST_PATH, writable: false },
    { host: node, inside: node, writable: false },
    ...(preload === undefined ? [] : [{ host: preload, inside: PRELOAD_PATH, writable: false }]),
  ];
}

function toShortcomings(tunnels: readonly Tunnel[]): string[] {
  const low = new Set(tunnels.filter(({ port }) => port < 1_024).map(({ port }) => port));
  return [...low].map(
    (port) =>
      `The port ${port} of this machine is allowed, but an agent may not listen below 1024, so it is not reachable inside; let that server listen on a higher port.`,
  );
}

const PRELOAD_PATH = `${PROGRAM_FOLDER}/preload.cjs`;

const LOCAL = "localhost,127.0.0.1,::1";

/** The variables that name the proxy. Each program knows one of these spellings. */
function toProxyEnvironment(port: number, preload: boolean): Record<string, string> {
  const proxy = `http://127.0.0.1:${port}`;
  const variables = { HTTP_PROXY: proxy, HTTPS_PROXY: proxy, ALL_PROXY: proxy, NO_PROXY: LOCAL };
  const inLowerCase = Object.entries(variables).map(([name, value]) => [name.toLowerCase(), value]);
  return {
    ...variables,
    ...Object.fromEntries(inLowerCase),
    // Node's own fetch needs this to use the variables above, and knows it from 22.21 and 24 on.
    NODE_USE_ENV_PROXY: "1",
    ...(preload ? { NODE_OPTIONS: `--require=${PRELOAD_PATH}` } : {}),
  };
}

/**
 * Starts the egress host again when it was killed. The guest waits ten seconds for it, so processes inside lose only
 * their open connections. It is not restarted after an exit of its own, or when its folder is gone.
 */
const KEEPER_SCRIPT = `trap "" HUP INT
until "$0" "$@"; do
  [ -d "$PWD" ] || exit 0
  sleep 0.2
done`;

/** The command of a shell that keeps a program running. It needs no server. */
export function toKept(argv: readonly string[]): string[] {
  return ["/bin/sh", "-c", KEEPER_SCRIPT, ...argv];
}

/** The files of the egress programs: both ends of the proxy, and the preload for a Node that cannot use proxies. */
export interface EgressPrograms {
  readonly host: string;
  readonly guest: string;
  readonly preload?: string;
}

/** The egress programs of the build, wherever this module was bundled to. */
export function findEgressPrograms(): EgressPrograms {
  const folder = findProgramFolder();
  return {
    host: join(folder, "egress-host.js"),
    guest: join(folder, "egress-guest.js"),
    preload: join(folder, "egress-preload.cjs"),
  };
}

/** The folder of the build's programs. */
export function findProgramFolder(folder: string = dirname(fileURLToPath(import.meta.url))): string {
  if (existsSync(join(folder, "package.json"))) return join(folder, "dist", "agents");
  const parent = dirname(folder);
  if (parent === folder) throw new Error("sluice's own package.json was not found above its files");
  return findProgramFolder(parent);
}
