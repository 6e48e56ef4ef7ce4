import { realpathSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import type { NetworkPolicy } from "../port.ts";
import { PRELOAD_PATH, toProxyEnvironment } from "./environment.ts";
import type { GuestSettings } from "./guest/settings.ts";
import { SETTINGS_VARIABLE, type HostSettings } from "./host/settings.ts";
import { parseHostPatterns, parsePrivateNames, type HostPattern } from "./hostPattern.ts";
import { isLoopbackHost } from "./hostPort.ts";
import { INSIDE_FOLDER } from "./ingress.ts";
import { toKept } from "./keeper.ts";
import { openPort, type OpenPort } from "./openPort.ts";
import { findPrograms, type BridgePrograms } from "./programs.ts";
import { findTrust, toTrustEnvironment, toTrustFolder, TRUST_PATH } from "./trust.ts";
import { toTunnels, type Tunnel } from "./tunnel.ts";

export interface BridgeOptions {
  /** The sandbox's own, for the sockets of both ends: made with mode 0700 where it is missing, owned by who runs inside. */
  readonly folder: string;
  readonly policy: NetworkPolicy;
  /** Hosts that the harness and its tools need. Under `loopback` only those of this machine count, under `none` none. */
  readonly extraHosts?: readonly string[];
  /** Whether ports that are open inside shall be reachable even where nothing leads outside; so under `allow` unless told otherwise. */
  readonly ports?: boolean;
  /** Where the proxy listens inside. */
  readonly proxyPort?: number;
  /** As in a hosts file; what it answers is checked like any other answer. */
  readonly names?: Readonly<Record<string, readonly string[]>>;
  /** How long the host program stays when nobody of the sandbox is connected to it. */
  readonly graceMs?: number;
  /** Makes fetch and the default agents of Node before 22.21 take the proxy too, by NODE_OPTIONS; off unless asked for. */
  readonly nodePreload?: boolean;
  /** Where `keepTrust` has kept what belongs to lent secrets, if it has. */
  readonly trust?: string;
  readonly programs?: BridgePrograms;
}

export interface Bridge {
  /** False when the sandbox does without: nothing to mount, nothing to start, nothing to say. */
  readonly needed: boolean;
  /** For the processes inside. */
  readonly env: Readonly<Record<string, string>>;
  /** Goes before a command inside. The command replaces it once the way out is open, so signals reach the command. */
  readonly prefix: readonly string[];
  /** What must be visible inside. */
  readonly needs: readonly BridgeMount[];
  /** What of it every process has to see, and not the bridge's own end alone. */
  readonly shared: readonly BridgeMount[];
  /** What was asked for and cannot be had, in words. */
  readonly shortcomings: readonly string[];
  /** The host program, to be started detached and as a member of the sandbox before each process. One that is told the same as the running one leaves at once; one that is told otherwise takes its place. */
  start(): Promise<BridgeStart | undefined>;
  /** Where a port that is open inside can be reached from here. */
  openPort(port: number): Promise<URL>;
  /** Closes what `openPort` opened. The sandbox's way out stays. */
  close(): Promise<void>;
}

export interface BridgeMount {
  readonly host: string;
  readonly inside: string;
  readonly writable: boolean;
}

export interface BridgeStart {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
}

/** The network bridge between a sandbox with a network namespace of its own and the host. */
export function createBridge(options: BridgeOptions): Bridge {
  const { folder, policy, proxyPort: preferred = 47_128, graceMs = 30_000, names } = options;
  const patterns = toPatterns(policy, options.extraHosts);
  const privates = parsePrivateNames(policy.mode === "allow" ? policy.private : undefined);
  const tunnels = toTunnels(patterns);
  const proxyPort = patterns.length > 0 ? toFreePort(preferred, tunnels) : undefined;
  const isFull = policy.mode === "full";
  const ports = options.ports ?? policy.mode === "allow";
  const needed = !isFull && (ports || patterns.length > 0);
  const programs = options.programs ?? findPrograms();
  const preload = options.nodePreload === true && proxyPort !== undefined ? programs.preload : undefined;
  const opened = new Map<number, Promise<OpenPort>>();
  const isOut = needed && proxyPort !== undefined;
  const trust = isOut && options.trust !== undefined ? findTrust(options.trust) : undefined;
  const shared = trust === undefined ? [] : [toTrustMount(options.trust as string)];

  return {
    needed,
    env: isOut
      ? {
          ...toProxyEnvironment(proxyPort, preload !== undefined),
          ...(trust === undefined ? {} : toTrustEnvironment()),
        }
      : {},
    prefix: needed ? toPrefix({ tunnels, ...(proxyPort === undefined ? {} : { proxyPort }) }) : [],
    needs: needed ? [...toMounts(folder, programs.guest, preload), ...shared] : [],
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
      };
      return {
        argv: toKept([process.execPath, programs.host]),
        env: { [SETTINGS_VARIABLE]: JSON.stringify(settings), ...toOwnTrust() },
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

/** Whom the server believes, the way out believes. */
function toOwnTrust(): Record<string, string> {
  const file = process.env["NODE_EXTRA_CA_CERTS"];
  return file === undefined ? {} : { NODE_EXTRA_CA_CERTS: file };
}

function toTrustMount(folder: string): BridgeMount {
  return { host: toTrustFolder(folder), inside: TRUST_PATH, writable: false };
}

const GUEST_PATH = "/run/sluice-bridge/guest.js";

function toPatterns(policy: NetworkPolicy, extraHosts: readonly string[] | undefined): HostPattern[] {
  if (policy.mode === "allow") return parseHostPatterns(policy.hosts, extraHosts);
  const patterns = parseHostPatterns(extraHosts);
  return policy.mode === "loopback" ? patterns.filter(({ host }) => isLoopbackHost(host)) : [];
}

function toFreePort(preferred: number, tunnels: readonly Tunnel[]): number {
  return tunnels.some(({ port }) => port === preferred) ? toFreePort(preferred + 1, tunnels) : preferred;
}

/** The guest is nobody's child and in a session of its own; the end of its output says that it listens. */
const PREFIX_SCRIPT = `_sluice_said=$(NODE_OPTIONS= $(command -v setsid) "$0" "$1" "$2" < /dev/null 2>&1 &)
[ -z "$_sluice_said" ] || echo "$_sluice_said" >&2
unset _sluice_said
shift 2
exec "$@"`;

function toPrefix(settings: GuestSettings): string[] {
  return [
    "/bin/sh",
    "-c",
    PREFIX_SCRIPT,
    realpathSync(process.execPath),
    GUEST_PATH,
    JSON.stringify(settings),
  ];
}

function toMounts(folder: string, guest: string, preload: string | undefined): BridgeMount[] {
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
