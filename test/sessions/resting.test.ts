import { expect, it } from "vitest";
import { createSqliteLog } from "../../src/log/index.ts";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createEngine } from "../../src/sessions/index.ts";

it("of the resting sessions, the longest unused is closed first", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "sluice-resting-"));
  const log = createSqliteLog({ folder: dataDir });
  const engine = await createEngine({ dataDir, log, defaultSandbox: "local" });
  try {
    const use = (id: string): Promise<void> => engine.report(id, { message: "used" });
    const ids = Array.from({ length: 257 }, (_, index) => `s${index}`);
    for (const id of ids) await engine.create(id, { agent: "scripted" });
    for (const id of ids.slice(0, 256)) await use(id);
    await use("s0");
    await use("s256");
    expect(engine.stats().sessionsLive).toBe(256);
    // Only a session that is not open here is looked up in the log.
    const reopened: string[] = [];
    const find = log.find.bind(log);
    log.find = (id) => {
      reopened.push(id);
      return find(id);
    };
    await use("s0");
    await use("s1");
    expect(new Set(reopened)).toEqual(new Set(["s1"]));
  } finally {
    await engine.close();
    await log.close();
    await rm(dataDir, { recursive: true, force: true });
  }
}, 60_000);
