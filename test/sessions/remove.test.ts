import { expect, it } from "vitest";
import { createSqliteLog } from "../../src/log/index.ts";
import { createEngine } from "../../src/sessions/index.ts";
import { processName } from "../../src/sessions/upkeep/lease.ts";
import { openEngine, readAll, runTurn, SCRIPTED, script } from "../support/engine.ts";

it("the next start finishes a deletion whose event is in the log", async () => {
  const test = await openEngine();
  try {
    for (const id of ["kept", "gone"]) {
      await test.engine.create(id, SCRIPTED);
      await runTurn(test, id, script({ say: "hi" }));
    }
    const kept = await readAll(test.log, "kept");
    await test.engine.close();

    // The state after `kill -9` behind the `session.deleted` event.
    const row = await test.log.find("gone");
    const epoch = await test.log.claim("gone", { owner: processName(), from: row?.epoch ?? 0 });
    const deleted = { type: "session.deleted", source: "daemon", data: {} } as const;
    await test.log.append("gone", { epoch, time: Date.now(), events: [deleted], active: true });
    await test.restart();

    expect(await test.log.find("gone")).toBeUndefined();
    expect((await readAll(test.log, "kept")).slice(0, kept.length)).toEqual(kept);
    await test.engine.create("gone", SCRIPTED);
    expect(await runTurn(test, "gone", script({ say: "again" }))).toMatchObject({
      data: { status: "completed" },
    });
  } finally {
    await test.close();
  }
});

it("the next start removes the rows that a killed server kept for its readers", async () => {
  const test = await openEngine();
  try {
    await test.engine.create("gone", SCRIPTED);
    const killed = createSqliteLog({ folder: test.folder });
    killed.hold((await killed.find("gone"))?.ordinal ?? 0);
    await killed.remove("gone");
    await killed.close();
    expect(await test.log.retired()).toHaveLength(1);
    const next = await createEngine({ dataDir: test.folder, log: test.log });
    expect(await test.log.retired()).toEqual([]);
    await next.close();
  } finally {
    await test.close();
  }
});
