import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { MovedCatalog, type MovedCatalogCounts, readFolderKey } from "../../catalog/postgres/move.ts";
import { readGivenKeys } from "../../catalog/postgres/key-check.ts";
import { CATALOG_TABLES } from "../../catalog/postgres/schema.ts";
import { checkMoved } from "../../log/move/check.ts";
import { type MovedCounts, moveLog } from "../../log/move/move.ts";
import { MovedLog } from "../../log/move/source.ts";
import { LOG_TABLES } from "../../log/postgres/schema.ts";
import { nameOf } from "../../postgres/address.ts";
import { Connections } from "../../postgres/connections.ts";
import { migrate } from "../../postgres/migrations.ts";
import { holdMove } from "../../postgres/moves.ts";
import { NODE_TABLES } from "../../postgres/node-tables.ts";
import { isLocked } from "../../sqlite/lock.ts";
import { checkDatabase } from "../database-check.ts";
import { CliFailure } from "../terminal/failure.ts";
import { refuseBound } from "./database.ts";
import { hasLog } from "./engine.ts";
import { fingerprintOf } from "./fingerprint.ts";
import { readServer } from "./server-note.ts";

/** Copying and comparing large texts takes longer than ordinary statements. */
const DEADLINE_MS = 600_000;
/** The longest time that a timer takes. */
const ENDLESS_MS = 2 ** 31 - 1;

/** What was moved, and compared. */
export interface MoveReport extends MovedCounts, MovedCatalogCounts {
  readonly folder: string;
  readonly database: string;
  /** Whether an earlier call has moved it all. */
  readonly before: boolean;
}

/**
 * Moves the sessions and the resources of a data folder to a PostgreSQL database (docs/decisions/0113). The folder stays
 * as it is. After a failure the next call goes on.
 */
export async function moveFolder(
  folder: string,
  url: string,
  told: (progress: string) => void,
): Promise<MoveReport> {
  if (!hasLog(folder))
    throw new CliFailure(`There is no log in ${folder}. Name the data folder with --data.`);
  refuseBound(folder);
  refuseHeld(folder);
  const database = nameOf(url);
  const { ok, hint } = await checkDatabase(url);
  if (!ok)
    throw new CliFailure(
      hint?.startsWith("The ") ? hint : `The database ${database} cannot be used: ${hint}.`,
    );
  const log = new MovedLog(folder);
  let holding: Connections | undefined;
  let working: Connections | undefined;
  try {
    holding = await Connections.create({ url, max: 1, deadlineMs: ENDLESS_MS });
    working = await Connections.create({ url, max: 2, deadlineMs: DEADLINE_MS });
    for (const part of [LOG_TABLES, CATALOG_TABLES, NODE_TABLES]) await migrate(working, part);
    const before = fingerprintOf(folder);
    let counts: (MovedCounts & MovedCatalogCounts) | undefined;
    const to = working;
    const held = await holdMove(holding, { source: log.identity, folder }, async () => {
      counts = await moveAll({ folder, log, database: to, told });
      if (before !== fingerprintOf(folder)) throw changed(folder);
      return before;
    });
    if (held.wasFinished && held.fingerprint !== before) throw changedSince(folder, database);
    return { folder, database, before: held.wasFinished, ...(counts ?? (await countMoved(working))) };
  } finally {
    log.close();
    await working?.close();
    await holding?.close();
  }
}

async function moveAll({
  folder,
  log,
  database,
  told,
}: {
  folder: string;
  log: MovedLog;
  database: Connections;
  told: (progress: string) => void;
}): Promise<MovedCounts & MovedCatalogCounts> {
  const moved = await moveLog(log, database, ({ sessions, events }) =>
    told(`${sessions} sessions, ${events} events moved`),
  );
  let resources: MovedCatalogCounts = { documents: 0, secrets: 0, contents: 0, bytes: 0 };
  if (existsSync(join(folder, "catalog.db"))) {
    const catalog = new MovedCatalog(folder);
    try {
      resources = await catalog.move(database, keysOf(folder), ({ contents }) =>
        told(`${contents} files moved`),
      );
    } finally {
      catalog.close();
    }
  }
  await checkMoved(log, database, (sessions) => told(`${sessions} of ${moved.sessions} sessions compared`));
  return { ...moved, ...resources };
}

/** The keys that the nodes share; without them, the folder's own, if there is one. */
function keysOf(folder: string): Uint8Array[] {
  const given = readGivenKeys();
  if (given) return given;
  const own = readFolderKey(folder);
  return own ? [own] : [];
}

async function countMoved({ query }: Connections): Promise<MovedCounts & MovedCatalogCounts> {
  const [row = {}] = await query(`
    SELECT (SELECT count(*) FROM sluice.sessions) AS sessions,
      (SELECT coalesce(sum(head - floor), 0) FROM sluice.places) AS events,
      (SELECT count(*) FROM sluice.blobs) AS blobs, 0 AS missing,
      (SELECT count(*) FROM sluice.documents) AS documents, (SELECT count(*) FROM sluice.secrets) AS secrets,
      (SELECT count(*) FROM sluice.contents) AS contents,
      (SELECT coalesce(sum(size), 0) FROM sluice.contents) AS bytes`);
  const counts = Object.entries(row).map(([name, value]) => [name, Number(value)]);
  return Object.fromEntries(counts) as MovedCounts & MovedCatalogCounts;
}

/** A process that runs sessions holds a lock in `owners`. */
function refuseHeld(folder: string): void {
  const server = readServer(folder);
  if (server !== undefined)
    throw new CliFailure(`The server at ${server} uses the data folder ${folder}. Stop it first.`);
  const owners = join(folder, "owners");
  const names = existsSync(owners) ? readdirSync(owners).filter((name) => name.endsWith(".db")) : [];
  if (names.some((name) => isLocked(join(owners, name))))
    throw new CliFailure(
      `A process of sluice uses the data folder ${folder}: a server, or a command such as \`sluice run\`. Stop it first.`,
    );
}

function changed(folder: string): CliFailure {
  return new CliFailure(
    `The data folder ${folder} was changed while it was moved. Stop what uses it, and run the command again: it goes on.`,
  );
}

function changedSince(folder: string, database: string): CliFailure {
  return new CliFailure(
    `The data folder ${folder} was moved to ${database} before, and has changed since. Use the database; or move to another, empty one.`,
  );
}
