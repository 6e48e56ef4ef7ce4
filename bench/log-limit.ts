import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { EventDraft } from "../src/contract/index.ts";
import { createSqliteLog } from "../src/log/index.ts";
import type { EventLog } from "../src/log/index.ts";
import { Sealer } from "../src/log/seal.ts";
import { toSegments } from "../src/log/segment.ts";
import type { NewSegment } from "../src/log/segment.ts";
import { createDriver } from "../src/log/sqlite/driver.ts";
import type { Driver } from "../src/log/sqlite/driver.ts";
import { openStore } from "../src/log/sqlite/open.ts";

export interface LogFigures {
  readonly batch: number;
  /** Events a second through `append`, with nothing before it. */
  readonly append: number;
  /** The bare limit: each native line parsed, the same rows inserted by prepared statements, and nothing else. */
  readonly limit: number;
  readonly ratio: number;
}

/** What the log alone makes of the bare limit on this machine, in alternating rounds of one run. */
export async function measureAppends(options: {
  batch: number;
  events: number;
  rounds: number;
}): Promise<LogFigures> {
  const appends: number[] = [];
  const limits: number[] = [];
  for (let round = 0; round < options.rounds; round++) {
    limits.push(withFolder((folder) => measureLimit(folder, options)));
    appends.push(await withFolder((folder) => measureLog(folder, options)));
  }
  const append = median(appends);
  const limit = median(limits);
  return { batch: options.batch, append, limit, ratio: append / limit };
}

export interface PageFigures {
  readonly history: number;
  /** Milliseconds for a page of 100 from the middle of the history. */
  readonly page: number;
}

export async function measurePages(histories: readonly number[]): Promise<PageFigures[]> {
  const figures: PageFigures[] = [];
  for (const history of histories) {
    figures.push(
      await withFolder(async (folder) => {
        const writer = createSqliteLog({ folder });
        await fill(writer, history);
        await writer.close();
        const log = createSqliteLog({ folder });
        const times: number[] = [];
        for (let n = 0; n < 300; n++) {
          const after = Math.floor(((n * 37) % 100) * ((history - 100) / 100));
          const start = performance.now();
          const page = await log.read("bench", { after, limit: 100 });
          times.push(performance.now() - start);
          if (page.length !== 100) throw new Error(`a page of ${page.length}`);
        }
        await log.close();
        return { history, page: median(times) };
      }),
    );
  }
  return figures;
}

async function measureLog(folder: string, options: { batch: number; events: number }): Promise<number> {
  const log = createSqliteLog({ folder });
  await log.create({ id: "bench", spec: { agent: "scripted" }, owner: "bench", time: Date.now() });
  const batches = toBatches(options);
  const start = performance.now();
  for (const [index, events] of batches.entries()) {
    await log.append("bench", { epoch: 1, time: Date.now(), events, spool: { process: 1, offset: index } });
  }
  const seconds = (performance.now() - start) / 1000;
  await log.close();
  return options.events / seconds;
}

function measureLimit(folder: string, options: { batch: number; events: number }): number {
  // The tables and settings of the log itself; only the statements here are bare.
  openStore({ folder }).close();
  const driver = createDriver(join(folder, "log.db"));
  driver.exec("PRAGMA synchronous = NORMAL");
  const insert = driver.prepare(
    "INSERT INTO segments (session, first, last, bodies, raws) VALUES (1, ?, ?, ?, ?)",
  );
  const sealer = new Sealer({ id: "bench", createdAt: 1 });
  let first = 1;
  const batches = toBatches(options).map((drafts) => {
    const texts = sealer.seal(drafts, { first, time: Date.now() });
    const { segments } = toSegments(drafts, texts, first);
    first += drafts.length;
    return { lines: drafts.map((draft) => draft.raw ?? "null"), segments };
  });
  const start = performance.now();
  for (const { lines, segments } of batches) {
    for (const line of lines) JSON.parse(line);
    insertRows(driver, insert, segments);
  }
  const seconds = (performance.now() - start) / 1000;
  driver.close();
  return options.events / seconds;
}

function insertRows(
  driver: Driver,
  insert: ReturnType<Driver["prepare"]>,
  segments: readonly NewSegment[],
): void {
  driver.exec("BEGIN IMMEDIATE");
  for (const { first, last, bodies, raws } of segments) insert.run(first, last, bodies, raws);
  driver.exec("COMMIT");
}

async function fill(log: EventLog, events: number): Promise<void> {
  await log.create({ id: "bench", spec: { agent: "scripted" }, owner: "bench", time: Date.now() });
  for (const batch of toBatches({ batch: 500, events })) {
    await log.append("bench", { epoch: 1, time: Date.now(), events: batch });
  }
}

/** Deltas as a streaming CLI brings them: one native line each, a few words of text. */
function toBatches(options: { batch: number; events: number }): EventDraft[][] {
  const drafts = Array.from({ length: options.events }, (_, n): EventDraft => {
    const delta = `some words of answer ${n}, and then "some" more\n`;
    return {
      type: "item.delta",
      source: "agent",
      turn_id: "turn_0mb1c2d3e4f5g6h7j8k9",
      native_session_id: "5f2b9a52-5ad3-4ff8-b2a5-7a1f5f1d4a51",
      data: { item_id: "itm_1_3", delta },
      raw: toNativeLine(delta, n),
    };
  });
  const batches: EventDraft[][] = [];
  for (let at = 0; at < drafts.length; at += options.batch)
    batches.push(drafts.slice(at, at + options.batch));
  return batches;
}

function toNativeLine(text: string, n: number): string {
  return Buffer.from(
    JSON.stringify({
      type: "stream_event",
      event: { type: "content_block_delta", index: 0, delta: { type: "text_delta", text } },
      session_id: "5f2b9a52-5ad3-4ff8-b2a5-7a1f5f1d4a51",
      parent_tool_use_id: null,
      uuid: `9c1e7f60-0000-4000-8000-${String(n).padStart(12, "0")}`,
    }),
  ).toString();
}

function withFolder<T>(work: (folder: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), "sluice-bench-log-"));
  const remove = (): void => rmSync(folder, { recursive: true });
  let result: T;
  try {
    result = work(folder);
  } catch (error) {
    remove();
    throw error;
  }
  if (!(result instanceof Promise)) {
    remove();
    return result;
  }
  return result.finally(remove) as T;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
