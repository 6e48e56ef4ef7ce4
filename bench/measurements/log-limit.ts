import type { EventDraft } from "../../src/contract/index.ts";
import { createSqliteLog } from "../../src/log/index.ts";
import { toSegments } from "../../src/log/segment.ts";
import { EventSerialiser } from "../../src/log/serialise.ts";
import { openStore, WAL_PAGES } from "../../src/log/sqlite/open.ts";
import { createDriver } from "../../src/sqlite/driver.ts";
import { withFolder } from "../environment.ts";
import { join } from "node:path";

export interface AppendTask {
  readonly batch: number;
  readonly events: number;
  readonly rounds: number;
}

export interface AppendResult {
  /** Events a second through `append` alone and by the bare limit, per round. */
  readonly appends: readonly number[];
  readonly limits: readonly number[];
}

/** The log's append against the bare limit, in alternating rounds of one run. */
export async function measureAppends(task: AppendTask): Promise<AppendResult> {
  const batches = toBatches(task);
  const appends: number[] = [];
  const limits: number[] = [];
  // The first round warms up and is not counted.
  for (let round = 0; round <= task.rounds; round++) {
    const limit = await limitSeconds(batches);
    const append = await appendSeconds(batches);
    if (round === 0) continue;
    limits.push(task.events / limit);
    appends.push(task.events / append);
  }
  return { appends, limits };
}

function appendSeconds(batches: readonly EventDraft[][]): Promise<number> {
  return withFolder(async (folder) => {
    const log = createSqliteLog({ folder });
    await log.create({ id: "bench", spec: { agent: "scripted" }, owner: "bench", time: Date.now() });
    const begun = performance.now();
    for (const [index, events] of batches.entries()) {
      await log.append("bench", { epoch: 1, time: Date.now(), events, spool: { process: 1, offset: index } });
    }
    const seconds = (performance.now() - begun) / 1000;
    await log.close();
    return seconds;
  });
}

function limitSeconds(batches: readonly EventDraft[][]): Promise<number> {
  const serialiser = new EventSerialiser({ id: "bench", createdAt: 1 });
  let first = 1;
  const rows = batches.map((drafts) => {
    const texts = serialiser.serialise(drafts, { first, time: Date.now() });
    const segments = toSegments(drafts, texts, first);
    first += drafts.length;
    return segments;
  });
  const lines = batches.flat().map((draft) => draft.raw ?? "null");
  return withFolder(async (folder) => {
    const bare = await openBareLog(folder);
    const seconds = bare.insert(rows, lines);
    bare.close();
    return seconds;
  });
}

/** Deltas as a streaming CLI brings them: one native line each, a few words of text. */
function toBatches({ events, batch }: AppendTask): EventDraft[][] {
  const drafts = Array.from({ length: events }, (_, n) => toDraft(n));
  const batches: EventDraft[][] = [];
  for (let at = 0; at < drafts.length; at += batch) batches.push(drafts.slice(at, at + batch));
  return batches;
}

function toDraft(n: number): EventDraft {
  const delta = `some words of answer ${n}, and then "some" more\n`;
  return {
    type: "item.delta",
    source: "agent",
    turn_id: "turn_0mb1c2d3e4f5g6h7j8k9",
    native_session_id: "5f2b9a52-5ad3-4ff8-b2a5-7a1f5f1d4a51",
    data: { item_id: "itm_1_3", delta },
    raw: JSON.stringify({
      type: "stream_event",
      event: { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: delta } },
      session_id: "5f2b9a52-5ad3-4ff8-b2a5-7a1f5f1d4a51",
      parent_tool_use_id: null,
      uuid: `9c1e7f60-0000-4000-8000-${String(n).padStart(12, "0")}`,
    }),
  };
}

/** The rows of one transaction. */
export type BareBatch = readonly {
  readonly first: number;
  readonly last: number;
  readonly bodies: string;
  readonly raws: string | null;
}[];

export interface BareLog {
  /** Parses each native line and inserts the same rows in the same transactions. Returns the seconds. */
  insert(batches: readonly BareBatch[], lines: readonly string[]): number;
  close(): void;
}

/**
 * The bare limit on this machine. Its database lives through all rounds, like the log's: in a fresh one the WAL
 * checkpoints, which every log pays for, would fall outside the measured time.
 */
export async function openBareLog(folder: string): Promise<BareLog> {
  // The tables and settings are those of the log; only the statements differ.
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
      // The log makes one WAL checkpoint after a turn; SQLite's automatic ones fall within the measured time.
      checkpoint.all();
      return seconds;
    },
    close: () => driver.close(),
  };
}

/** V8 flattens a concatenated string at its first use. The limit is measured without that copy. */
function toFlat(row: BareBatch[number]): BareBatch[number] {
  return { ...row, bodies: copied(row.bodies), raws: row.raws === null ? null : copied(row.raws) };
}

function copied(text: string): string {
  return Buffer.from(text).toString();
}
