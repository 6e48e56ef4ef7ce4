import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createSqliteLog } from "../../src/log/index.ts";
import { readAll } from "../../src/log/testkit/suite.ts";
import { buildProgram } from "./program.ts";
import type { Program } from "./program.ts";

describe("kill -9 of a process that appends", () => {
  let appender: Program;
  let folder: string;
  beforeAll(async () => {
    appender = await buildProgram("appender");
    folder = await mkdtemp(join(tmpdir(), "sluice-kill-"));
  });
  afterAll(async () => {
    await appender.dispose();
    await rm(folder, { recursive: true });
  });

  it("keeps every acknowledged event, gapless, ten times over on one log", async () => {
    for (let round = 0; round < 10; round++) {
      const run = appender.start(folder);
      await run.line(/^\d+$/);
      await delay(round * 17);
      run.child.kill("SIGKILL");
      expect((await run.exit()).signal).toBe("SIGKILL");

      const log = createSqliteLog({ folder });
      const row = await log.find("s");
      // The last line may have been cut by the kill; all before it are whole.
      const acknowledged = Number(run.lines.at(-2) ?? 0);
      expect(row?.head).toBeGreaterThanOrEqual(acknowledged);
      expect(row?.spool?.offset).toBe(row?.head);
      const events = await readAll(log, "s", { raw: true });
      expect(events.map((event) => event.sequence)).toEqual(
        Array.from({ length: row?.head ?? 0 }, (_, n) => n + 1),
      );
      for (const event of events) {
        const body = JSON.parse(event.body);
        expect(body.sequence).toBe(event.sequence);
        const { round, n } = JSON.parse(event.raw ?? "");
        if (!body.data.delta.startsWith("big")) expect(body.data.delta).toBe(`delta ${round} ${n}`);
      }
      await log.close();
    }
    const log = createSqliteLog({ folder });
    await log.remove("s");
    await log.close();
    const left = await readdir(join(folder, "blobs"), { recursive: true, withFileTypes: true });
    expect(left.filter((entry) => entry.isFile())).toEqual([]);
  });
});
