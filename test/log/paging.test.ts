import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { EventDraft } from "../../src/contract/index.ts";
import { createMemoryLog } from "../../src/log/index.ts";
import type { EventLog } from "../../src/log/index.ts";
import { createDriver } from "../../src/sqlite/driver.ts";
import type { Driver, Row } from "../../src/sqlite/driver.ts";
import { openStore } from "../../src/log/sqlite/open.ts";
import { StoredLog } from "../../src/log/stored-log.ts";
import { append, createSession, readAll, toDeltas } from "../../src/log/testkit/suite.ts";

describe("a page of the log", () => {
  let folder: string;
  beforeEach(async () => (folder = await mkdtemp(join(tmpdir(), "sluice-page-"))));
  afterEach(() => rm(folder, { recursive: true }));

  it("touches a few rows of any history", async () => {
    const touched: Record<number, number[]> = {};
    for (const history of [1000, 100_000]) {
      const place = join(folder, String(history));
      await fill(place, history);
      const counter = createCounter();
      const log = new StoredLog(openStore({ folder: place }, counter.open));
      await log.read("s", { after: 0, limit: 1 });
      touched[history] = [];
      for (const after of [0, 450, history / 2, history - 150, history - 100]) {
        counter.reset();
        expect(await log.read("s", { after, limit: 100 })).toHaveLength(100);
        touched[history].push(counter.rows.filter((row) => "bodies" in row).length);
        for (const sql of counter.statements) {
          const plan = counter.explain(sql);
          expect(plan.filter((step) => step.startsWith("SCAN") || step.includes("TEMP B-TREE"))).toEqual([]);
        }
      }
      expect(Math.max(...touched[history])).toBeLessThanOrEqual(2);
      await log.close();
    }
    expect(touched[100_000]).toHaveLength(5);
  });

  it("at the head of a log that this process writes costs no query", async () => {
    const counter = createCounter();
    const log = new StoredLog(openStore({ folder }, counter.open));
    await createSession(log, "s");
    const { signal } = new AbortController();
    const waiting = Array.from({ length: 50 }, () => log.moved("s", 0, { signal }));
    await append(log, "s", toDeltas(1000));
    await Promise.all(waiting);
    counter.reset();
    for (let reader = 0; reader < 50; reader++)
      expect(await log.read("s", { after: 0, limit: 1000 })).toHaveLength(1000);
    expect(counter.rows.filter((row) => !("data_version" in row))).toEqual([]);
    await log.close();
  });

  it("is all of it or a refusal, also when its beginning is trimmed while it waits behind a long commit", async () => {
    const first = new StoredLog(openStore({ folder }));
    await createSession(first, "s");
    for (let part = 0; part < 3; part++) await append(first, "s", toDeltas(10));
    await createSession(first, "busy");
    await first.close();

    // Opened again, so that nothing is cached.
    const log = new StoredLog(openStore({ folder }));
    const long = append(log, "busy", toDeltas(2000));
    const page = log.read("s", { after: 0, limit: 100 });
    const longer = append(log, "busy", toDeltas(2000));
    const trimmed = log.trim("s", 10);
    expect((await page).map(({ sequence }) => sequence)).toEqual(
      Array.from({ length: 30 }, (_, at) => at + 1),
    );
    await Promise.all([long, longer, trimmed]);
    await log.close();
  });

  it.each(["memory", "sqlite"])("after any cut equals the uncut log: %s", async (kind) => {
    let run = 0;
    const step = fc.record({
      size: fc.integer({ min: 0, max: 60 }),
      text: fc.string({ unit: "binary", maxLength: 30 }),
      raw: fc.boolean(),
      big: fc.boolean(),
    });
    const cut = fc.record({ limit: fc.integer({ min: 1, max: 90 }), raw: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 12 }),
        fc.array(cut, { minLength: 1, maxLength: 8 }),
        async (steps, cuts) => {
          const place = join(folder, String(run++));
          const open = (): EventLog =>
            kind === "memory" ? createMemoryLog() : new StoredLog(openStore({ folder: place }));
          let log = open();
          await createSession(log, "s");
          const drafts = steps.map((step) => toDrafts(step));
          for (const events of drafts) await append(log, "s", events);
          const live = await readAll(log, "s", { raw: true });
          if (kind === "sqlite") {
            await log.close();
            log = open();
          }
          expect(await readAll(log, "s", { raw: true })).toEqual(live);
          expect(live.map((event) => JSON.parse(event.body).data)).toEqual(
            drafts.flat().map((draft) => draft.data),
          );
          expect(live.map((event) => event.raw)).toEqual(drafts.flat().map((draft) => draft.raw));
          let after = 0;
          for (let n = 0; after < live.length; n++) {
            const { limit, raw } = cuts[n % cuts.length] ?? { limit: 1, raw: false };
            const page = await log.read("s", { after, limit, raw });
            const expected = live.slice(after, after + page.length);
            expect(page.length).toBe(Math.min(limit, live.length - after));
            expect(page).toEqual(
              raw ? expected : expected.map(({ sequence, type, body }) => ({ sequence, type, body })),
            );
            after += page.length;
          }
          await log.close();
        },
      ),
      { numRuns: kind === "memory" ? 100 : 40 },
    );
  });
});

function toDrafts(step: { size: number; text: string; raw: boolean; big: boolean }): EventDraft[] {
  return Array.from({ length: step.size }, (_, n) => {
    const delta = step.big && n === 0 ? `${step.text} long `.repeat(8000) : `${step.text}${n}`;
    // Two consecutive events share a native line.
    const raw = JSON.stringify({ line: n >> 1, text: step.text });
    return { type: "item.delta", source: "agent", data: { item_id: "i", delta }, ...(step.raw && { raw }) };
  });
}

async function fill(folder: string, events: number): Promise<void> {
  const log = new StoredLog(openStore({ folder }));
  await createSession(log, "s");
  for (let n = 0; n < events; n += 500) await append(log, "s", toDeltas(500, { from: n }));
  await log.close();
}

/** A driver that records queries and their results. */
function createCounter() {
  const rows: Row[] = [];
  const statements = new Set<string>();
  let driver: Driver | undefined;
  return {
    rows,
    statements,
    reset: () => {
      rows.length = 0;
      statements.clear();
    },
    explain: (sql: string): string[] => {
      if (sql.startsWith("PRAGMA")) return [];
      return (driver?.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(1, 1, 1) ?? []).map((row) =>
        String(row.detail),
      );
    },
    open: (path: string): Driver => {
      const real = createDriver(path);
      driver = real;
      return {
        ...real,
        prepare: (sql) => {
          const statement = real.prepare(sql);
          return {
            run: statement.run,
            get: (...values) => {
              statements.add(sql);
              const row = statement.get(...values);
              if (row) rows.push(row);
              return row;
            },
            all: (...values) => {
              statements.add(sql);
              const found = statement.all(...values);
              rows.push(...found);
              return found;
            },
          };
        },
      };
    },
  };
}
