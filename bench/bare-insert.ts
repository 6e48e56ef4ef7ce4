import { join } from "node:path";
import { createDriver } from "../src/sqlite/driver.ts";
import { openStore, WAL_PAGES } from "../src/log/sqlite/open.ts";

/** The rows of one transaction. */
export type BareBatch = readonly {
  readonly first: number;
  readonly last: number;
  readonly bodies: string;
  readonly raws: string | null;
}[];

export interface BareLog {
  /** Each native line parsed, the same rows inserted in the same transactions, and nothing else. Answers the seconds. */
  insert(batches: readonly BareBatch[], lines: readonly string[]): number;
  close(): void;
}

/**
 * The bare limit on this machine, in a database that lives as long as the one that it is compared with: a fresh one
 * for each round would leave the checkpoints of its write-ahead log, which every log has to pay for, behind the clock.
 */
export async function openBareLog(folder: string): Promise<BareLog> {
  // The tables and settings of the log itself; only the statements here are bare.
  await openStore({ folder }).close();
  const driver = createDriver(join(folder, "log.db"));
  driver.exec("PRAGMA synchronous = NORMAL");
  driver.prepare(`PRAGMA wal_autocheckpoint = ${WAL_PAGES}`).all();
  const begin = driver.prepare("BEGIN IMMEDIATE");
  const commit = driver.prepare("COMMIT");
  const checkpoint = driver.prepare("PRAGMA wal_checkpoint(PASSIVE)");
  const insertRow = driver.prepare(
    "INSERT INTO segments (session, first, last, bodies, raws) VALUES (1, ?, ?, ?, ?)",
  );
  return {
    insert(batches, lines) {
      const flat = batches.map((batch) => batch.map(toFlat));
      const linesPerBatch = Math.ceil(lines.length / batches.length);
      const begun = performance.now();
      for (const [index, batch] of flat.entries()) {
        const end = Math.min(lines.length, (index + 1) * linesPerBatch);
        for (let at = index * linesPerBatch; at < end; at++) JSON.parse(lines[at] as string);
        begin.run();
        for (const { first, last, bodies, raws } of batch) insertRow.run(first, last, bodies, raws);
        commit.run();
      }
      const seconds = (performance.now() - begun) / 1000;
      // As the log has one behind a turn; SQLite's own stand within it.
      checkpoint.all();
      return seconds;
    },
    close: () => driver.close(),
  };
}

/** A text that was put together piece by piece is copied into one when it is first used; a limit has that behind it. */
function toFlat(row: BareBatch[number]): BareBatch[number] {
  return { ...row, bodies: copied(row.bodies), raws: row.raws === null ? null : copied(row.raws) };
}

function copied(text: string): string {
  return Buffer.from(text).toString();
}
