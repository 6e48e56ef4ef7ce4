import { defined } from "../../contract/own-keys.ts";
import type { NodeInfo, Nodes } from "../../http/nodes/port.ts";
import { NODE_HEADER } from "../../http/nodes/forward.ts";
import { deriveKeys, FORWARD_HEADER, sign } from "../../http/nodes/signature.ts";
import { OPERATOR } from "../../http/access/access.ts";
import type { NodeLease } from "../../postgres/node-lease.ts";
import { type NodeRow, parseHolder } from "../../postgres/node-tables.ts";
import type { Ownership } from "../../sessions/upkeep/lease.ts";
import { CliFailure } from "../terminal/failure.ts";

/** How much longer than a lease a request waits for a new owner: nodes look for expired leases every second. */
const MARGIN_MS = 5_000;
const PROBE_MS = 5_000;

/** A node's lease, as the engine uses it. */
export function toOwnership(lease: NodeLease): Ownership {
  return {
    name: lease.holder,
    isShared: true,
    node: lease.name,
    get isHeld() {
      return lease.isHeld;
    },
    untilHeld: () => lease.untilHeld(),
    refresh: () => lease.refresh(),
    isFree: (holder) => lease.isFree(holder),
    hasOrphans: () => lease.hasOrphans(),
    onGone: (listener) => lease.onGone(listener),
    // The server releases it, after the last write.
    release: () => {},
  };
}

/** The other nodes, as the routes use them. */
export class ServedNodes implements Nodes {
  readonly keys: readonly Uint8Array[];
  readonly #lease: NodeLease;
  isDraining = false;

  constructor(lease: NodeLease, keys: readonly Uint8Array[]) {
    this.#lease = lease;
    this.keys = deriveKeys(keys);
  }

  get life(): string {
    return this.#lease.life;
  }

  get name(): string {
    return this.#lease.name;
  }

  get patienceMs(): number {
    return this.#lease.seconds * 1_000 + MARGIN_MS;
  }

  locate: Nodes["locate"] = (session) => this.#lease.locate(session);

  onGone: Nodes["onGone"] = (listener) => this.#lease.onGone(listener);

  async isAlive(life: string): Promise<boolean> {
    return (await this.#lease.list()).some((row) => row.life === life);
  }

  reports(owner: string | undefined): boolean {
    const holder = owner === undefined ? undefined : parseHolder(owner);
    if (holder?.name === this.#lease.name) return true;
    return (owner === undefined || this.#lease.isFree(owner)) && this.#lease.isFirst;
  }

  async list(): Promise<NodeInfo[]> {
    const [rows, counts] = await Promise.all([this.#lease.list(), this.#lease.countSessions()]);
    const toInfo = ({ name, url, version, startedAt, ...row }: NodeRow): NodeInfo => ({
      name,
      ...defined({ url, version }),
      state: stateOf({ url, ...row }),
      self: row.life === this.#lease.life,
      startedAt,
      leaseMs: Math.max(0, row.remainingMs),
      sessions: counts.get(name) ?? 0,
    });
    return rows.map(toInfo);
  }

  /** Tells the other nodes the address of this one, after a check that it leads here. */
  async announce(url: string): Promise<void> {
    const path = "/v1/health";
    const claims = { to: this.life, from: this.name, method: "GET", path, at: Date.now(), access: OPERATOR };
    const headers = { [FORWARD_HEADER]: sign(claims, this.keys) };
    const answer = await fetch(new URL(path, url), {
      headers,
      redirect: "error",
      signal: AbortSignal.timeout(PROBE_MS),
    }).catch((error: Error) => {
      throw new CliFailure(
        `Nothing answers at ${url}, where the other nodes would reach this one (${String(error.cause ?? error)}). Give the right address with --advertise.`,
      );
    });
    await answer.body?.cancel();
    if (answer.headers.get(NODE_HEADER) !== this.life)
      throw new CliFailure(
        `${url} leads to another server than this one. Give this node's own address with --advertise, not that of a proxy.`,
      );
    await this.#lease.announce(url);
  }

  /** Tells the other nodes that this one shuts down. */
  async drain(): Promise<void> {
    this.isDraining = true;
    await this.#lease.drain();
  }
}

function stateOf({
  url,
  remainingMs,
  isDraining,
}: Pick<NodeRow, "remainingMs" | "isDraining"> & { url: string | undefined }): NodeInfo["state"] {
  if (remainingMs < 0) return "late";
  if (isDraining) return "draining";
  return url === undefined ? "starting" : "live";
}
