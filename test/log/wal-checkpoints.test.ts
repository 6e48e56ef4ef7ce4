import { copyFile, mkdir, mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { createSqliteLog } from "../../src/log/index.ts";
import { append, createSession, toDeltas } from "../../src/log/testkit/suite.ts";

it("moves writes into the database while others write, and all of them once writing stops", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-checkpoints-"));
  const log = createSqliteLog({ folder });
  try {
    await createSession(log, "s");
    for (let batch = 0; batch < 40; batch++) await append(log, "s", toDeltas(1_000, { from: batch * 1_000 }));
    await vi.waitFor(
      async () => expect((await stat(join(folder, "log.db"))).size).toBeGreaterThan(4 * 1024 * 1024),
      { timeout: 20_000 },
    );
    // A copy of the database file alone, without the write-ahead log, holds them.
    const copy = join(folder, "copy");
    await vi.waitFor(
      async () => {
        await mkdir(copy, { recursive: true });
        await copyFile(join(folder, "log.db"), join(copy, "log.db"));
        const alone = createSqliteLog({ folder: copy });
        expect((await alone.find("s"))?.head).toBe(40_000);
        await alone.close();
      },
      { timeout: 20_000 },
    );
  } finally {
    await log.close();
    await rm(folder, { recursive: true });
  }
});
