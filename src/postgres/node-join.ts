import { SluiceError } from "../contract/index.ts";
import type { Query } from "./connections.ts";
import { refuseUnfinished } from "./moves.ts";
import { JOIN_LOCK, NODE_ROW, toNodeRow } from "./node-tables.ts";

export interface JoinOptions {
  /** The name of this node; no other may have it. */
  readonly name: string;
  /** The name of this process, as `isDead` takes it. */
  readonly process: string;
  /** The name of this machine. */
  readonly machine: string;
  /** Whether only this machine can reach the node's address. */
  readonly isLocal: boolean;
  readonly version: string;
  readonly seconds: number;
  /** Whether the process of another server is known to be dead; false where this cannot be known from here. */
  readonly isDead: (process: string) => boolean;
}

/**
 * Adds a node, and returns the id of the database. Fails where another node has the name, or the nodes could not reach
 * each other.
 */
export async function joinNodes(query: Query, options: JoinOptions & { life: string }): Promise<string> {
  const { name, life, seconds, isDead, machine, isLocal, version } = options;
  await query(`SELECT pg_advisory_xact_lock(${JOIN_LOCK})`);
  await refuseUnfinished(query);
  for (const row of (await query(NODE_ROW)).map(toNodeRow)) {
    const isOver = row.remainingMs < 0;
    const isDeadHere = (row.machine === "" || row.machine === machine) && isDead(row.process);
    if (isDeadHere || (isOver && (row.name === name || row.machine === ""))) {
      await query("DELETE FROM sluice.nodes WHERE life = $1", [row.life]);
      continue;
    }
    if (isOver) continue;
    const seconds = Math.ceil(row.remainingMs / 1_000);
    if (row.machine === "") throw older(row.name, seconds);
    if (row.name === name) throw taken(row.name, seconds);
    if (row.machine !== machine && isLocal) throw unreachable(row.name);
    if (row.machine !== machine && row.url !== undefined && isLoopback(row.url))
      throw otherUnreachable(row.name, row.url);
  }
  await query(
    `INSERT INTO sluice.nodes (life, name, process, machine, version, started_at, expires_at)
     VALUES ($1, $2, $3, $4, $5, clock_timestamp(), clock_timestamp() + make_interval(secs => $6::float8))`,
    [life, name, options.process, machine, version, seconds],
  );
  const [identity] = await query("SELECT id FROM sluice.identity");
  return String(identity?.["id"]);
}

function isLoopback(url: string): boolean {
  return /^https?:\/\/(?:localhost|127(?:\.\d+){3}|\[::1\])(?::|\/|$)/i.test(url);
}

function taken(name: string, seconds: number): SluiceError {
  const detail = `Another server of the name ${name} works on this database. Give this one another name with --node, or stop the other; if it is dead, its lease ends in ${seconds} seconds. Nothing was changed.`;
  return new SluiceError("unsupported_database", detail, { holder: name, seconds });
}

function older(name: string, seconds: number): SluiceError {
  const detail = `The server ${name}, of an older version, works alone on this database. Stop it first; if it is dead, its lease ends in ${seconds} seconds. Nothing was changed.`;
  return new SluiceError("unsupported_database", detail, { holder: name, seconds });
}

function unreachable(name: string): SluiceError {
  const detail = `The node ${name} runs on another machine and could not reach this one. Give its address with --advertise, such as --advertise http://10.0.0.2:7411. Nothing was changed.`;
  return new SluiceError("unsupported_database", detail, { node: name });
}

function otherUnreachable(name: string, url: string): SluiceError {
  const detail = `The node ${name} runs on another machine at ${url}, which cannot be reached from here. Start it with --advertise and its address in the network. Nothing was changed.`;
  return new SluiceError("unsupported_database", detail, { node: name, url });
}
