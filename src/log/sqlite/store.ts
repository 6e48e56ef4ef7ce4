import type { Driver } from "../../sqlite/driver.ts";
import { toSluiceError } from "../../sqlite/failure.ts";
import {
  createTransact,
  createTransactBeside,
  type Transact,
  type TransactBeside,
} from "../../sqlite/transactions.ts";
import type { Claim, ListPage, NewSession, Remembered, RestingPage, SessionRow } from "../port.ts";
import { fenced, keyTaken, sessionNotFound } from "../refusals.ts";
import type { Blob } from "../large-texts.ts";
import { blobsOf, type Segment } from "../segment.ts";
import { type Commit, type ForeignWatch, type Position, type SegmentStore, toSessionRow } from "../store.ts";
import { BlobFiles, Blobs } from "./blobs.ts";
import { FolderWatch } from "./folder-watch.ts";
import { prepareStatements, type Statements } from "./statements.ts";
import { SqliteTurns } from "./turns.ts";
import { SqliteUsage } from "./usage.ts";
import { WalCheckpoints } from "./wal-checkpoints.ts";

const END = Number.MAX_SAFE_INTEGER;

/** A commit of at least this much text runs on another thread. A shorter one takes less time than the switch. */
const LONG_TEXT = 64 * 1024;

interface StoreOptions {
  readonly folder: string;
  /** Whether each commit waits for the disk. */
  readonly sync: boolean;
  /** Opens another connection to the same database. */
  readonly another: () => Driver;
}

/** The log's rows in SQLite. Expects a database that is open and migrated. */
export class SqliteStore implements SegmentStore {
  readonly turns: SqliteTurns;
  readonly usage: SqliteUsage;
  readonly #driver: Driver;
  readonly #folder: string;
  readonly #sql: Statements;
  readonly #transact: Transact;
  readonly #transactBeside: TransactBeside;
  readonly #waitsForDisk: boolean;
  readonly #blobs: Blobs;
  readonly #walCheckpoints: WalCheckpoints;

  constructor(driver: Driver, options: StoreOptions) {
    this.#driver = driver;
    this.#walCheckpoints = new WalCheckpoints(options.another);
    this.#folder = options.folder;
    this.#sql = prepareStatements(driver);
    this.#transact = createTransact(driver);
    this.#transactBeside = createTransactBeside(driver);
    this.turns = new SqliteTurns(this.#sql, this.#transact, options.folder);
    this.usage = new SqliteUsage(this.#sql, options.folder);
    this.#waitsForDisk = options.sync;
    this.#blobs = new Blobs(new BlobFiles(options.folder, options), this.#sql, this.#transact);
    this.#blobs.settle();
  }

  create(sessions: readonly NewSession[]): (SessionRow | undefined)[] {
    return this.#attempt(() =>
      this.#transact(() =>
        sessions.map(({ id, time, spec, owner, tenant = null, key }) => {
          const added = this.#sql.addSession.run(id, time, JSON.stringify(spec), tenant);
          if (added.changes === 0) return undefined;
          this.#sql.addPosition.run(owner, id);
          const row = this.#mustFind(id);
          if (key) this.#sql.addKey.run(row.ordinal, key.key, key.fingerprint, key.answer);
          return row;
        }),
      ),
    );
  }

  find(session: string): SessionRow | undefined {
    const row = this.#attempt(() => this.#sql.find.get(session));
    return row && toSessionRow(row);
  }

  list({ before = END, limit, tenant }: ListPage): SessionRow[] {
    const rows = this.#attempt(() =>
      tenant === undefined ? this.#sql.list.all(before, limit) : this.#sql.listOf.all(tenant, before, limit),
    );
    return rows.map(toSessionRow);
  }

  resting({ before, byTtl, after, limit }: RestingPage): SessionRow[] {
    const statement = byTtl ? this.#sql.expired : this.#sql.resting;
    const { updatedAt = -1, ordinal = 0 } = after ?? {};
    return this.#attempt(() => statement.all(before, updatedAt, ordinal, limit)).map(toSessionRow);
  }

  size(): number {
    const rows = this.#attempt(() => Number(this.#sql.size.get()?.size));
    return rows + this.#blobs.size();
  }

  active(): SessionRow[] {
    return this.#attempt(() => this.#sql.active.all()).map(toSessionRow);
  }

  position(session: string): Position | undefined {
    const row = this.#attempt(() => this.#sql.position.get(session));
    return (
      row && {
        ordinal: Number(row.ordinal),
        createdAt: Number(row.created_at),
        head: Number(row.head),
        floor: Number(row.floor),
      }
    );
  }

  strayed(believed: ReadonlyMap<string, Position>): string[] {
    const positions = [...believed].map(([id, { ordinal, head, floor }]) => [id, ordinal, head, floor]);
    const rows = this.#attempt(() => this.#sql.strayed.all(JSON.stringify(positions)));
    return rows.map((row) => String(row.id));
  }

  claim(session: string, claim: Claim): number {
    return this.#attempt(() => {
      // The highest value that the row's column `active` may have.
      const mostActive = claim.onlyIdle === true ? 0 : 1;
      if (this.#sql.claim.run(claim.owner, session, claim.from, mostActive).changes === 1)
        return claim.from + 1;
      const { epoch, owner } = this.#mustFind(session);
      throw fenced(session, { epoch, owner, given: claim.from });
    });
  }

  commit(commit: Commit): boolean | Promise<boolean> {
    const blobs = blobsOf(commit.segments);
    if (blobs.length > 0) return this.#commitWith(blobs, commit);
    const length = lengthOf(commit.segments);
    if (this.#waitsForDisk || length >= LONG_TEXT) return this.#commitBeside(commit, length);
    return this.#commitHere(commit, length);
  }

  recall(session: string, key: string): Remembered | undefined {
    const row = this.#attempt(() => this.#sql.recall.get(session, key));
    return row && { fingerprint: String(row.fingerprint), answer: String(row.answer) };
  }

  trim(session: string, through: number): void {
    this.#attempt(() =>
      this.#transact(() => {
        const { ordinal } = this.#mustFind(session);
        this.#sql.raiseFloor.run(through, ordinal);
        const { floor } = this.#mustFind(session);
        this.#blobs.letGo(ordinal, floor);
        this.#sql.dropSegments.run(ordinal, floor);
        this.turns.trim(ordinal, floor);
      }),
    );
    this.#blobs.settle();
  }

  remove(session: string): void {
    this.#attempt(() =>
      this.#transact(() => {
        const { ordinal } = this.#mustFind(session);
        this.#sql.addFence.run(ordinal);
        this.#blobs.letGo(ordinal, END);
        this.#sql.dropSegments.run(ordinal, END);
        this.turns.trim(ordinal, END);
        this.#sql.dropKeys.run(ordinal);
        this.#sql.dropStates.run(ordinal);
        this.#sql.dropPosition.run(ordinal);
        this.#sql.dropSession.run(ordinal);
      }),
    );
    this.#blobs.settle();
  }

  retire(session: string, name: string): void {
    this.#attempt(() =>
      this.#transact(() => {
        const { ordinal } = this.#mustFind(session);
        this.#sql.fencePosition.run(ordinal);
        this.#sql.addFence.run(ordinal);
        this.#sql.rename.run(name, ordinal);
      }),
    );
  }

  retired(): SessionRow[] {
    return this.#attempt(() => this.#sql.retired.all()).map(toSessionRow);
  }

  segments(ordinal: number, range: { after: number; limit: number; raw: boolean }): Segment[] {
    const statement = range.raw ? this.#sql.segmentsWithRaws : this.#sql.segments;
    const rows = this.#attempt(() => statement.all(ordinal, range.after, range.after + range.limit));
    return rows as unknown as Segment[];
  }

  blob(hash: string): string | undefined {
    return this.#attempt(() => this.#blobs.read(hash));
  }

  version(): number {
    return Number(this.#attempt(() => this.#sql.version.get())?.data_version);
  }

  watch(): ForeignWatch {
    return new FolderWatch(this.#folder);
  }

  async close(): Promise<void> {
    await this.#walCheckpoints.close();
    try {
      this.#driver.exec("PRAGMA busy_timeout = 0");
      this.#driver.prepare("PRAGMA wal_checkpoint(TRUNCATE)").all();
    } catch {
      // Another process still uses the database, or the disk is full; the next open reads the rest from the WAL.
    }
    this.#driver.close();
  }

  #commitHere(commit: Commit, length: number): boolean {
    const committed = this.#attempt(() => this.#transact(() => this.#write(commit)));
    if (committed) this.#walCheckpoints.wrote(length);
    return committed;
  }

  async #commitBeside(commit: Commit, length: number): Promise<boolean> {
    try {
      const committed = await this.#transactBeside(() => this.#write(commit));
      if (committed) this.#walCheckpoints.wrote(length);
      return committed;
    } catch (error) {
      throw toSluiceError(error, this.#folder);
    }
  }

  /** Writes the files of the blobs, then commits on this thread. */
  #commitWith(blobs: readonly Blob[], commit: Commit): boolean {
    let committed = false;
    try {
      this.#attempt(() => this.#blobs.write(blobs));
      committed = this.#commitHere(commit, lengthOf(commit.segments));
    } finally {
      if (!committed) this.#blobs.settle();
    }
    return committed;
  }

  /** The rows of one append; call it in a transaction. */
  #write({ session, position, batch, segments }: Commit): boolean {
    const sql = this.#sql;
    const { ordinal } = position;
    const head = position.head + batch.events.length;
    const active = batch.active === undefined ? null : Number(batch.active);
    const { process = null, offset = null } = batch.spool ?? {};
    const { epoch, time } = batch;
    const moved = sql.move.run(head, time, active, process, offset, ordinal, epoch, position.head);
    if (moved.changes === 0) {
      const row = sql.lease.get(ordinal);
      if (row === undefined || row.epoch === batch.epoch) return false;
      throw fenced(session, { epoch: Number(row.epoch), owner: String(row.owner), given: batch.epoch });
    }
    for (const segment of segments) {
      sql.addSegment.run(ordinal, segment.first, segment.last, segment.bodies, segment.raws);
      if (segment.blobs.length > 0) this.#blobs.use(ordinal, segment);
    }
    if (batch.snapshot !== undefined) {
      sql.setState.run(ordinal, "snapshot", head, null, this.#walCheckpoints.countState(batch.snapshot));
    }
    if (batch.usage) this.usage.write(ordinal, batch.usage);
    if (batch.history) this.turns.write(ordinal, batch.history);
    if (batch.spool?.checkpoint !== undefined) {
      const { process, offset, checkpoint } = batch.spool;
      sql.setState.run(ordinal, "checkpoint", offset, process, this.#walCheckpoints.countState(checkpoint));
    }
    if (batch.key) {
      const { key, fingerprint, answer } = batch.key;
      if (sql.addKey.run(ordinal, key, fingerprint, answer).changes === 0) throw keyTaken(session, key);
    }
    return true;
  }

  #mustFind(session: string): SessionRow {
    const row = this.#sql.find.get(session);
    if (row === undefined) throw sessionNotFound(session);
    return toSessionRow(row);
  }

  #attempt<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw toSluiceError(error, this.#folder);
    }
  }
}

function lengthOf(segments: readonly Segment[]): number {
  return segments.reduce((sum, { bodies, raws }) => sum + bodies.length + (raws?.length ?? 0), 0);
}
