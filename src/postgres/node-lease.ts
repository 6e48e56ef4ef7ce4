import { randomBytes } from "node:crypto";
import { SluiceError } from "../contract/index.ts";
import { Connections } from "./connections.ts";
import { migrate } from "./migrations.ts";
import { findMoved } from "./moves.ts";
import { type JoinOptions, joinNodes } from "./node-join.ts";
import { NODE_ROW, NODE_TABLES, type NodeRow, parseHolder, toHolder, toNodeRow } from "./node-tables.ts";

const MAX_BEAT_MS = 1_000;

export interface NodeLeaseOptions extends JoinOptions {
  readonly url: string;
}

/**
 * The lease of one node on its sessions: a row with a time by the clock of the database (docs/decisions/0103). A node
 * is alive as long as its row exists. Only a row whose time is over, or whose process is known to be dead, is deleted,
 * and it never comes back: so every observer may rely on the absence of a row.
 */
export class NodeLease {
  readonly databaseId: string;
  readonly name: string;
  readonly life: string;
  readonly seconds: number;
  readonly #database: Connections;
  readonly #isDead: NodeLeaseOptions["isDead"];
  readonly #machine: string;
  #rows: readonly NodeRow[];
  #timer: NodeJS.Timeout | undefined;
  #beating: Promise<void> | undefined;
  #isReleased = false;
  #isLost = false;
  /** By the monotonic clock, counted from before the last beat was sent. */
  #heldUntil: number;
  /** Rows of others are not deleted before: if this node was cut off from the database, they may have been as well. */
  #reapsFrom = 0;
  #waiting: { resolve(): void; reject(error: unknown): void }[] = [];
  readonly #goneListeners = new Set<() => void>();

  private constructor(
    database: Connections,
    options: NodeLeaseOptions,
    joined: {
      readonly databaseId: string;
      readonly life: string;
      readonly at: number;
      rows: readonly NodeRow[];
    },
  ) {
    this.#database = database;
    this.databaseId = joined.databaseId;
    this.life = joined.life;
    this.name = options.name;
    this.seconds = options.seconds;
    this.#isDead = options.isDead;
    this.#machine = options.machine;
    this.#rows = joined.rows;
    this.#heldUntil = joined.at + this.#actingMs;
    this.#reapsFrom = joined.at + this.seconds * 1_000;
  }

  /** Fails where another node has the name, or the nodes could not reach each other. */
  static async join(options: NodeLeaseOptions): Promise<NodeLease> {
    const { url, seconds } = options;
    const database = await Connections.create({ url, max: 2, deadlineMs: Math.max(1_000, seconds * 1_000) });
    try {
      await migrate(database, NODE_TABLES);
      const life = randomBytes(8).toString("hex");
      const at = performance.now();
      const databaseId = await database.transact((query) => joinNodes(query, { ...options, life }));
      const rows = (await database.query(NODE_ROW)).map(toNodeRow);
      return new NodeLease(database, options, { databaseId, life, at, rows });
    } catch (error) {
      await database.close();
      throw error;
    }
  }

  /** The fingerprint of the data folder that was moved to this database. */
  findMoved(): Promise<string | undefined> {
    return findMoved(this.#database.query);
  }

  /** The owner's name in the sessions of this node. */
  get holder(): string {
    return toHolder(this);
  }

  /** Whether nobody can have taken the sessions over. A process that was frozen for too long sees it at once. */
  get isHeld(): boolean {
    return !this.#isLost && performance.now() < this.#heldUntil;
  }

  /** Resolves when the lease is confirmed; fails when it is lost. */
  untilHeld(): Promise<void> {
    if (this.isHeld) return Promise.resolve();
    if (this.#isLost || this.#isReleased) return Promise.reject(lost());
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  /** Renews the lease from now on. `onLost` is called once, when another node has declared this one dead. */
  start(onLost: () => void): void {
    const everyMs = Math.min(MAX_BEAT_MS, (this.seconds * 1_000) / 3);
    this.#timer = setInterval(() => void this.#beat(onLost), everyMs);
    this.#timer.unref();
  }

  /** Tells the other nodes where this one is reached. */
  async announce(url: string): Promise<void> {
    await this.#database.query("UPDATE sluice.nodes SET url = $2 WHERE life = $1", [this.life, url]);
  }

  /** Tells the other nodes that this one shuts down. */
  async drain(): Promise<void> {
    await this.#database
      .query("UPDATE sluice.nodes SET draining = true WHERE life = $1", [this.life])
      .catch(() => {});
  }

  /** Calls the listener after a node has gone. */
  onGone(listener: () => void): () => void {
    this.#goneListeners.add(listener);
    return () => this.#goneListeners.delete(listener);
  }

  /** The nodes, the longest running first. Nodes that are found dead are gone already. */
  async list(): Promise<readonly NodeRow[]> {
    await this.refresh();
    return this.#rows;
  }

  /** Reads the nodes. A holder that was read before this call, and has no node now, is dead for ever. */
  async refresh(): Promise<void> {
    if (this.#isReleased) return;
    this.#learn((await this.#database.query(`${NODE_ROW} ORDER BY started_at, life`)).map(toNodeRow));
    if (this.#rows.some((row) => this.#isOver(row))) await this.#reap();
  }

  /**
   * Whether the sessions of a holder may be taken over: it was this node, in any life, or its node is gone. Call
   * `refresh` after the holder was read.
   */
  isFree(text: string): boolean {
    const holder = parseHolder(text);
    if (!holder || holder.name === this.name) return true;
    return !this.#rows.some(({ name }) => name === holder.name);
  }

  /** The node that has the session; undefined where it is this one, or none, or there is no such session. */
  async locate(session: string): Promise<NodeRow | undefined> {
    const [found] = await this.#database.query(
      `SELECT p.owner FROM sluice.sessions s JOIN sluice.places p ON p.session = s.ordinal WHERE s.id = $1`,
      [session],
    );
    const holder = found && parseHolder(String(found["owner"]));
    if (!holder || holder.name === this.name) return undefined;
    await this.refresh();
    return this.#rows.find(({ name }) => name === holder.name);
  }

  /** Whether this node is the one for work that belongs to no session: the longest running. */
  get isFirst(): boolean {
    return this.#rows[0]?.life === this.life;
  }

  /** Whether an active session waits for a new owner. */
  async hasOrphans(): Promise<boolean> {
    const rows = await this.#database.query(
      `SELECT 1 FROM sluice.places p WHERE p.active AND p.owner <> $1 AND (split_part(p.owner, '@', 2) = $2
         OR NOT EXISTS (SELECT 1 FROM sluice.nodes n WHERE n.name = split_part(p.owner, '@', 2))) LIMIT 1`,
      [this.holder, this.name],
    );
    return rows.length > 0;
  }

  /** How many active sessions each node has, by its name. */
  async countSessions(): Promise<Map<string, number>> {
    const rows = await this.#database.query(
      "SELECT split_part(owner, '@', 2) AS name, count(*) AS count FROM sluice.places WHERE active GROUP BY 1",
    );
    return new Map(rows.map((row) => [String(row["name"]), Number(row["count"])]));
  }

  /** To be called after the last write. The sessions of this node are free from then on. */
  async release(): Promise<void> {
    if (this.#isReleased) return;
    this.#isReleased = true;
    clearInterval(this.#timer);
    await this.#beating;
    await this.#database.query("DELETE FROM sluice.nodes WHERE life = $1", [this.life]).catch(() => {});
    await this.#database.close();
    this.#settle(lost());
  }

  /** A margin covers the time between the check and the act. */
  get #actingMs(): number {
    return this.seconds * 1_000 - Math.min(1_000, this.seconds * 100);
  }

  #beat(onLost: () => void): Promise<void> {
    if (this.#isReleased || this.#isLost) return Promise.resolve();
    this.#beating ??= this.#renew(onLost).finally(() => (this.#beating = undefined));
    return this.#beating;
  }

  /** While the database is away nobody can take over either, so a failure is no loss. */
  async #renew(onLost: () => void): Promise<void> {
    const at = performance.now();
    try {
      const renewed = await this.#database.query(
        `UPDATE sluice.nodes SET expires_at = clock_timestamp() + make_interval(secs => $2::float8)
         WHERE life = $1 RETURNING 1`,
        [this.life, this.seconds],
      );
      if (renewed.length === 0) {
        if (this.#isReleased) return;
        this.#isLost = true;
        clearInterval(this.#timer);
        this.#settle(lost());
        return onLost();
      }
      if (at > this.#heldUntil) this.#reapsFrom = at + this.seconds * 1_000;
      this.#heldUntil = at + this.#actingMs;
      this.#settle();
      await this.refresh();
    } catch {
      // The next round tries again.
    }
  }

  #settle(error?: unknown): void {
    for (const { resolve, reject } of this.#waiting.splice(0))
      if (error) reject(error);
      else resolve();
  }

  #isOver({ life, process, remainingMs, machine }: NodeRow): boolean {
    if (life === this.life) return false;
    if (machine === this.#machine && this.#isDead(process)) return true;
    return remainingMs < 0 && performance.now() > this.#reapsFrom;
  }

  /** Deletes the rows of dead nodes. A renewal that comes first keeps its row: the statement looks again. */
  async #reap(): Promise<void> {
    for (const row of this.#rows.filter((each) => this.#isOver(each)))
      await this.#database.query(
        `DELETE FROM sluice.nodes WHERE life = $1 AND ($2::int = 1 OR expires_at < clock_timestamp())`,
        [row.life, Number(row.machine === this.#machine && this.#isDead(row.process))],
      );
    this.#learn((await this.#database.query(`${NODE_ROW} ORDER BY started_at, life`)).map(toNodeRow));
  }

  #learn(rows: readonly NodeRow[]): void {
    const isGone = this.#rows.some(({ life }) => !rows.some((row) => row.life === life));
    this.#rows = rows;
    if (isGone) for (const listener of this.#goneListeners) listener();
  }
}

function lost(): SluiceError {
  const detail = "This node has lost its lease: another one may run its sessions. Try again in a moment.";
  return new SluiceError("storage_unavailable", detail);
}
