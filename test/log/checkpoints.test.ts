import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { createSqliteLog } from "../../src/log/index.ts";
import { append, createSession, toDeltas } from "../../src/log/testkit/suite.ts";

it("moves what was written into the database once nobody writes", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-lull-"));
  const log = createSqliteLog({ folder });
  try {
    await createSession(log, "s");
    for (let batch = 0; batch < 40; batch++) await append(log, "s", toDeltas(1_000, { from: batch * 1_000 }));
    await vi.waitFor(
      async () => expect((await stat(join(folder, "log.db"))).size).toBeGreaterThan(4 * 1024 * 1024),
      { timeout: 20_000 },
    );
  } finally {
    await log.close();
    await rm(folder, { recursive: true });
  }
});
