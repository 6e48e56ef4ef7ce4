import type { GatewayLaunch, Lending } from "../../contract/process.ts";
import type { HostPattern, Tunnel } from "./allow-list.ts";
import type { Certified } from "./certificate.ts";

/** The folder of both sockets, as the sandbox sees it. */
export const INSIDE_FOLDER = "/run/sluice";
/** The egress host listens here. */
export const EGRESS_SOCKET = "egress.sock";
/** A guest keeps a request for this path open while it runs. */
export const PRESENCE_PATH = "/presence";

/**
 * An egress guest listens here for connections to ports inside. A client sends `PORT 8080`, gets `OK` or `NO reason`,
 * each in a line, and then sends its bytes. Each network namespace of a sandbox has a guest of its own.
 */
export function toIngressName(unique: string): string {
  return `ingress.${unique}.sock`;
}

export function isIngressName(name: string): boolean {
  return /^ingress\.[\w-]+\.sock$/.test(name);
}

export const LONGEST_LINE = 256;

/** The settings of the egress guest, as JSON in its only argument. They hold no secret. */
export interface GuestSettings {
  /** Absent if no host is allowed. */
  readonly proxyPort?: number;
  readonly tunnels: readonly Tunnel[];
}

/**
 * The settings of the egress host, as JSON in its environment. They hold none of the session's secrets, only the token
 * to ask for them.
 */
export interface HostSettings {
  readonly patterns: readonly HostPattern[];
  /** Names that may lie in a private network. */
  readonly privates?: readonly HostPattern[];
  /** Addresses by name, as in a hosts file. They go before the resolver's, and are checked like any others. */
  readonly names?: Readonly<Record<string, readonly string[]>>;
  /** How long it runs without a connection from the sandbox. */
  readonly graceMs: number;
  /** Set if secrets are lent to the sandbox. */
  readonly lent?: LentSettings;
  /** Set if the model traffic of an agent inside is led through the gateway. */
  readonly gateway?: GatewaySettings;
}

export interface GatewaySettings {
  readonly launch: GatewayLaunch;
  /** The file of its records. */
  readonly records: string;
  /**
   * The port on loopback for a sandbox without a network of its own. The listening socket is descriptor 3. The end of
   * stdin is the end of the agent.
   */
  readonly port?: number;
}

export interface LentSettings {
  readonly lending: Lending;
  /** Signs certificates for the hosts that secrets may go to. */
  readonly authority: Certified;
  /** The harness's own hosts, such as its model's: a secret that names no host does not go there. */
  readonly own: readonly HostPattern[];
}

/**
 * Names from the time when the egress proxy was called a bridge. An upgraded server finds them in use: containers keep
 * their mounts, and an egress host is restarted with the variables of its first start.
 */
export const SETTINGS_VARIABLE = "SLUICE_BRIDGE";
/** The name of the sockets' folder in the sandbox's own folder. */
export const SOCKET_FOLDER = "bridge";
/** The folder of the egress programs, as the sandbox sees it. */
export const PROGRAM_FOLDER = "/run/sluice-bridge";
