import { join } from "node:path";
import { createDriver } from "../src/log/sqlite/driver.ts";
import { openStore } from "../src/log/sqlite/open.ts";
import { withFolder } from "./place.ts";

/** The rows of one transaction. */
export type BareBatch = readonly {
  readonly first: number;
  readonly last: number;
  readonly bodies: string;
  readonly raws: string | null;
}[];

/**
 * The bare limit on this machine: each native line parsed, the same rows inserted in the same transactions by
 * prepared statements, and nothing else. Answers the seconds.
 */
export function insertBare(batches: readonly BareBatch[], lines: readonly string[]): Promise<number> {
  return withFolder(async (folder) => {
    // The tables and settings of the log itself; only the statements here are bare.
    openStore({ folder }).close();
    const driver = createDriver(join(folder, "log.db"));
    driver.exec("PRAGMA synchronous = NORMAL");
    driver.prepare("PRAGMA wal_autocheckpoint = 8000").all();
    const begin = driver.prepare("BEGIN IMMEDIATE");
    const commit = driver.prepare("COMMIT");
    const insert = driver.prepare(
      "INSERT INTO segments (session, first, last, bodies, raws) VALUES (1, ?, ?, ?, ?)",
    );
    const flat = batches.map((batch) => batch.map(toFlat));
    const linesPerBatch = Math.ceil(lines.length / batches.length);
    const begun = performance.now();
    for (const [index, batch] of flat.entries()) {
      const end = Math.min(lines.length, (index + 1) * linesPerBatch);
      for (let at = index * linesPerBatch; at < end; at++) JSON.parse(lines[at] as string);
      begin.run();
      for (const { first, last, bodies, raws } of batch) insert.run(first, last, bodies, raws);
      commit.run();
    }
    const seconds = (performance.now() - begun) / 1000;
    driver.close();
    return seconds;
  });
}

/** A text that was put together piece by piece is copied into one when it is first used; a limit has that behind it. */
function toFlat(row: BareBatch[number]): BareBatch[number] {
  return { ...row, bodies: copied(row.bodies), raws: row.raws === null ? null : copied(row.raws) };
}

function copied(text: string): string {
  return Buffer.from(text).toString();
}
