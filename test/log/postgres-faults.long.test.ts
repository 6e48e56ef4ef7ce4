import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { createPostgresLog, type OpenPostgresLog } from "../../src/log/postgres/open.ts";
import { append, createSession, isGapless, readAll, toDeltas } from "../../src/log/testkit/suite.ts";
import { requirePostgres, startPostgres, type TestPostgres } from "../support/postgres.ts";

const { bin, reason } = requirePostgres();

describe.skipIf(bin === undefined)(reason ?? "a log on PostgreSQL", () => {
  let server: TestPostgres;
  const open: OpenPostgresLog[] = [];
  beforeAll(async () => {
    server = await startPostgres(bin ?? "");
  }, 60_000);
  afterAll(() => server?.stop());
  afterEach(async () => {
    for (const log of open.splice(0)) await log.close();
  });

  const openLog = async (url: string): Promise<OpenPostgresLog> => {
    const log = await createPostgresLog({ url });
    open.push(log);
    return log;
  };
  const adminOf = (url: string) => server.admin(new URL(url).pathname.slice(1));

  it("wakes a reader of another node, and gives it every event once", async () => {
    const url = await server.createDatabase();
    const [writer, other] = [await openLog(url), await openLog(url)];
    await createSession(writer, "s");
    const { signal } = new AbortController();
    const seen: Awaited<ReturnType<typeof other.read>> = [];
    const reading = (async () => {
      while (seen.length < 600) {
        const page = await other.read("s", { after: seen.length, limit: 50 });
        seen.push(...page);
        if (page.length === 0) await other.moved("s", seen.length, { signal });
      }
    })();
    for (let n = 0; n < 60; n++) await append(writer, "s", toDeltas(10));
    await reading;
    isGapless(seen, 1);
    expect(writer.hears && other.hears).toBe(true);
  }, 60_000);

  it("wakes a reader of another node without notifications, by the poll", async () => {
    const url = await server.createDatabase();
    const [writer, other] = [await openLog(url), await openLog(url)];
    await createSession(writer, "s");
    await adminOf(url)`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ILIKE 'listen%'`;
    const { signal } = new AbortController();
    const woken = other.moved("s", 0, { signal });
    await append(writer, "s", toDeltas(1));
    await woken;
    const gone = other.moved("s", 1, { signal });
    await writer.remove("s");
    await gone;
  }, 60_000);

  it("stores each append once while its connections are cut", async () => {
    const url = await server.createDatabase();
    const log = await openLog(url);
    await createSession(log, "s");
    const admin = adminOf(url);
    const cutting = (async () => {
      for (let n = 0; n < 20; n++) {
        await admin`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE pid <> pg_backend_pid() AND datname = current_database()`;
        await sleep(50);
      }
    })();
    let head = 0;
    for (let n = 0; n < 200; n++) {
      const key = { key: `k${n}`, fingerprint: "f", answer: String(n) };
      const { first, last } = await append(log, "s", toDeltas(3), { after: head, ...(n % 2 && { key }) });
      expect(first).toBe(head + 1);
      head = last;
    }
    await cutting;
    const events = await readAll(log, "s");
    expect(events).toHaveLength(600);
    isGapless(events, 1);
    expect(await log.recall("s", "k199")).toEqual({ fingerprint: "f", answer: "199" });
  }, 120_000);

  it("keeps every acknowledged append when the database is killed, and goes on when it is back", async () => {
    const url = await server.createDatabase();
    const log = await openLog(url);
    await createSession(log, "s");
    let [acknowledged, epoch] = [0, 1];
    const writing = (async () => {
      for (let n = 0; n < 400; n++) {
        try {
          const { last } = await append(log, "s", toDeltas(2), { after: acknowledged, epoch });
          acknowledged = last;
        } catch (error) {
          // As the engine does: the outcome is unknown, so a new epoch, and on from the head.
          expect(error).toMatchObject({ code: "storage_unavailable" });
          epoch = await claimAgain(log, "s");
          acknowledged = (await log.find("s"))?.head ?? 0;
        }
      }
    })();
    for (let n = 0; n < 3; n++) {
      await sleep(150);
      await server.kill();
      await server.start();
    }
    await writing;
    const events = await readAll(log, "s");
    isGapless(events, 1);
    expect(events).toHaveLength(acknowledged);
    expect(acknowledged).toBeGreaterThan(700);
  }, 120_000);

  it("fails an append with storage_unavailable while the database stays away, and reads again afterwards", async () => {
    const url = await server.createDatabase();
    const log = await openLog(url);
    await createSession(log, "s");
    await append(log, "s", toDeltas(1));
    await server.kill();
    const failing = expect(append(log, "s", toDeltas(1), { after: 1 })).rejects.toMatchObject({
      code: "storage_unavailable",
      status: 503,
      retryable: true,
    });
    await expect(log.find("s")).rejects.toMatchObject({ code: "storage_unavailable" });
    await failing;
    await server.start();
    expect((await log.find("s"))?.head).toBe(1);
    expect(await log.claim("s", { owner: "again", from: 1 })).toBe(2);
    expect((await append(log, "s", toDeltas(1), { after: 1, epoch: 2 })).last).toBe(2);
  }, 120_000);

  it("stores the appends of 200 sessions at the same time", async () => {
    const url = await server.createDatabase();
    const log = await openLog(url);
    const ids = Array.from({ length: 200 }, (_, n) => `s${n}`);
    await Promise.all(ids.map((id) => createSession(log, id)));
    await Promise.all(
      ids.map(async (id) => {
        for (let n = 0; n < 10; n++) await append(log, id, toDeltas(3), { after: 3 * n });
      }),
    );
    for (const id of ids.slice(0, 20)) isGapless(await readAll(log, id), 1);
    expect(await log.size()).toBeGreaterThan(0);
  }, 120_000);

  describe("refuses", () => {
    it("a URL that is none, of a server that is not there, of a database that is not there", async () => {
      for (const url of [
        "mysql://a@b/c",
        "nonsense",
        "postgres://127.0.0.1/x",
        "postgres://a@b/c?search_path=x",
      ])
        expect((await refusal(createPostgresLog({ url }))).code).toBe("invalid_request");
      const away = await refusal(createPostgresLog({ url: "postgres://someone:geheim@127.0.0.1:1/x" }));
      expect(away.code).toBe("storage_unavailable");
      expect(away.message).toContain("127.0.0.1:1/x");
      expect(away.message).not.toContain("geheim");
      expect((await refusal(createPostgresLog({ url: server.urlOf("none") }))).code).toBe(
        "permission_denied",
      );
    });

    it("a user without rights, and leaves nothing behind", async () => {
      const url = await server.createDatabase();
      await server.admin()`CREATE ROLE stranger LOGIN`;
      const as = new URL(url);
      as.username = "stranger";
      const refused = await refusal(createPostgresLog({ url: as.href }));
      expect(refused).toMatchObject({ code: "permission_denied" });
      expect(refused.message).toContain("CREATE");
      expect(await adminOf(url)`SELECT 1 FROM pg_namespace WHERE nspname = 'sluice'`).toHaveLength(0);
    });

    it("tables of a newer sluice that this one cannot read, and accepts those that it can", async () => {
      const url = await server.createDatabase();
      await (await createPostgresLog({ url })).close();
      const admin = adminOf(url);
      await admin`UPDATE sluice.meta SET version = 9, readable_by = 1 WHERE part = 'log'`;
      await (await createPostgresLog({ url })).close();
      await admin`UPDATE sluice.meta SET version = 9, readable_by = 8 WHERE part = 'log'`;
      const refused = await refusal(createPostgresLog({ url }));
      expect(refused).toMatchObject({ code: "data_version" });
      expect(refused.message).toContain("Upgrade this sluice");
    });

    it("a database that can only be read", async () => {
      const url = await server.createDatabase();
      const name = new URL(url).pathname.slice(1);
      await server.admin().unsafe(`ALTER DATABASE ${name} SET default_transaction_read_only = on`);
      const refused = await refusal(createPostgresLog({ url }));
      expect(refused).toMatchObject({ code: "storage_unavailable" });
      expect(refused.message).toContain("primary");
    });
  });

  it("creates its tables once, also when many start at the same time", async () => {
    const url = await server.createDatabase();
    const logs = await Promise.all(Array.from({ length: 6 }, () => createPostgresLog({ url })));
    open.push(...logs);
    await createSession(logs[0] as OpenPostgresLog, "s");
    for (const log of logs) expect((await log.find("s"))?.id).toBe("s");
  }, 60_000);
});

async function claimAgain(log: OpenPostgresLog, session: string): Promise<number> {
  for (const deadline = Date.now() + 60_000; ; await sleep(200)) {
    try {
      const from = (await log.find(session))?.epoch ?? 0;
      return await log.claim(session, { owner: "again", from });
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
  }
}

async function refusal(work: Promise<unknown>): Promise<{ code: string; message: string }> {
  const error: unknown = await work.then(
    () => undefined,
    (failure: unknown) => failure,
  );
  return error as { code: string; message: string };
}
