import { setTimeout as sleep } from "node:timers/promises";
import { SluiceError } from "../contract/index.ts";
import type { Connections, Query } from "./connections.ts";
import { codeOf } from "./failure.ts";
import { migrate, type Part } from "./migrations.ts";
import { JOIN_LOCK } from "./node-tables.ts";

/** The move of a data folder to this database (docs/decisions/0113): at most one row. */
export const MOVE_TABLES: Part = {
  name: "moves",
  steps: [
    {
      readableBy: 1,
      sql: `
        CREATE TABLE sluice.moves (
          source text PRIMARY KEY,
          folder text NOT NULL,
          started_at timestamptz NOT NULL,
          finished_at timestamptz,
          fingerprint text
        )
      `,
    },
  ],
};

/** How often the transaction that holds the move is used: a database may end one that rests for long. */
const USE_MS = 5_000;

export interface Move {
  /** Identifies the log of the folder, wherever the folder lies. */
  readonly source: string;
  readonly folder: string;
}

/**
 * Runs the work while this process alone moves to the database, and no node joins. Where the folder was moved before,
 * the work is not run and the fingerprint of that time is returned. One transaction lasts as long as the work.
 */
export async function holdMove(
  database: Connections,
  move: Move,
  work: () => Promise<string>,
): Promise<{ readonly fingerprint: string; readonly wasFinished: boolean }> {
  await migrate(database, MOVE_TABLES);
  const finished = await database.transact((query) => begin(query, move));
  if (finished !== undefined) return { fingerprint: finished, wasFinished: true };
  const fingerprint = await database.transact(async (query) => {
    await lock(query, move);
    const over = new AbortController();
    const working = work().finally(() => over.abort());
    working.catch(() => {});
    while (!over.signal.aborted) {
      await sleep(USE_MS, undefined, { signal: over.signal }).catch(() => {});
      await query("SELECT 1");
    }
    const result = await working;
    await query(
      "UPDATE sluice.moves SET finished_at = clock_timestamp(), fingerprint = $2 WHERE source = $1",
      [move.source, result],
    );
    return result;
  });
  return { fingerprint, wasFinished: false };
}

/** Refuses a node while a move is unfinished: it would see a part of the sessions. */
export async function refuseUnfinished(query: Query): Promise<void> {
  const [found] = await query("SELECT to_regclass('sluice.moves') IS NOT NULL AS found");
  if (found?.["found"] !== true) return;
  const [row] = await query("SELECT folder FROM sluice.moves WHERE finished_at IS NULL");
  if (!row) return;
  const folder = String(row["folder"]);
  const detail = `The move of the data folder ${folder} to this database is not finished. Wait for its end, or go on with it: \`sluice migrate --data ${folder}\`. Nothing was changed.`;
  throw new SluiceError("unsupported_database", detail, { folder });
}

/** The fingerprint of the folder that was moved to this database. */
export async function findMoved(query: Query): Promise<string | undefined> {
  const [found] = await query("SELECT to_regclass('sluice.moves') IS NOT NULL AS found");
  if (found?.["found"] !== true) return undefined;
  const [row] = await query("SELECT fingerprint FROM sluice.moves WHERE finished_at IS NOT NULL");
  return row && String(row["fingerprint"]);
}

/** Notes the move in an empty database. Returns the fingerprint of a finished one. */
async function begin(query: Query, { source, folder }: Move): Promise<string | undefined> {
  await query(`SELECT pg_advisory_xact_lock(${JOIN_LOCK})`);
  const [known] = await query("SELECT source, folder, finished_at, fingerprint FROM sluice.moves");
  if (known && known["source"] !== source) throw another(String(known["folder"]));
  if (known?.["finished_at"]) return String(known["fingerprint"]);
  const [node] = await query("SELECT name FROM sluice.nodes WHERE expires_at > clock_timestamp()");
  if (node) throw served(String(node["name"]));
  if (known) return undefined;
  const [used] = await query(
    `SELECT EXISTS (SELECT 1 FROM sluice.sessions) OR EXISTS (SELECT 1 FROM sluice.documents)
       OR EXISTS (SELECT 1 FROM sluice.usage) AS used`,
  );
  if (used?.["used"] === true) throw notEmpty();
  await query("INSERT INTO sluice.moves (source, folder, started_at) VALUES ($1, $2, clock_timestamp())", [
    source,
    folder,
  ]);
  return undefined;
}

async function lock(query: Query, { source }: Move): Promise<void> {
  try {
    // The connection of a run that was killed may need a moment to end.
    await query("SET LOCAL lock_timeout = '10s'");
    await query("SELECT 1 FROM sluice.moves WHERE source = $1 FOR UPDATE", [source]);
  } catch (error) {
    throw codeOf(error) === "55P03" ? underway() : error;
  }
}

function another(folder: string): SluiceError {
  const detail = `The data folder ${folder} was moved to this database, or is being moved. Each folder needs a database of its own. Nothing was changed.`;
  return new SluiceError("unsupported_database", detail, { folder });
}

function served(node: string): SluiceError {
  const detail = `The node ${node} works on this database. A folder is moved to an empty database, before the first node starts. Nothing was changed.`;
  return new SluiceError("unsupported_database", detail, { node });
}

function notEmpty(): SluiceError {
  const detail =
    "The database has sessions or resources of its own. A folder is moved to an empty database: create another one. Nothing was changed.";
  return new SluiceError("unsupported_database", detail);
}

function underway(): SluiceError {
  const detail = "Another `sluice migrate` works on this database. Wait for its end.";
  return new SluiceError("unsupported_database", detail);
}
