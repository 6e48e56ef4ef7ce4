import { spawnSync } from "node:child_process";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkDatabase } from "../../src/cli/database-check.ts";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { script } from "../support/engine.ts";
import { assistantTexts, expectLawful } from "../support/laws.ts";
import { missingPooler, startPooler, type TestPooler } from "../support/pgbouncer.ts";
import { requirePostgres, startPostgres, type TestPostgres } from "../support/postgres.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { readFrames } from "../support/sse.ts";
import { openWire, type Wire } from "../support/wire.ts";
import { create, eventsOf, isAgents, KEY, POLL, readTurn, send, TOKEN } from "./node-bench.ts";

const { bin, reason } = requirePostgres();
const noPooler = missingPooler();

describe.skipIf(bin === undefined)(reason ?? "nodes and the ways to PostgreSQL", { timeout: 240_000 }, () => {
  let primary: TestPostgres;
  const servers: TestServer[] = [];
  beforeAll(async () => {
    primary = await startPostgres(bin ?? "");
  }, 60_000);
  afterAll(async () => {
    await primary?.stop();
  }, 60_000);

  const node = async (name: string, url: string, ...args: string[]): Promise<TestServer> => {
    const env = { SLUICE_DATABASE: url, SLUICE_SEAL_KEY: KEY, SLUICE_TOKEN: TOKEN };
    const server = await startServer({ env, args: ["--node", name, "--lease", "3", ...args] });
    servers.push(server);
    return server;
  };
  const closeAll = async (): Promise<void> => {
    for (const server of servers.splice(0)) await server.close();
  };

  it.skipIf(noPooler !== undefined)(noPooler ?? "work behind PgBouncer in transaction mode", async () => {
    const pooler: TestPooler = await startPooler(primary);
    try {
      const url = await primary.createDatabase();
      // One only polls, the other one hears by a direct connection.
      const a = await node("a", pooler.through(url));
      const b = await node("b", pooler.through(url), "--database-direct", url);
      await expect.poll(() => a.stderr(), POLL).toContain("notifications are not heard");
      await expect.poll(() => b.stderr(), POLL).toContain("this is its node b");
      expect(b.stderr()).not.toContain("notifications are not heard");
      const { stdout } = spawnSync("./bin/sluice", ["doctor", "--database", pooler.through(url), "--json"], {
        encoding: "utf8",
      });
      expect(stdout).toContain("no notification is heard");
      await create(a, "s");
      const watching = readTurn(b, "s");
      await send(b, "s", script({ say: "hello" }, { shell: "echo one" }), "key");
      expect(assistantTexts(await watching)).toEqual(["hello"]);
      await send(a, "s", script({ say: "begin" }, { shell: "sleep 600" }));
      const after = (await eventsOf(b, "s")).length;
      await readFrames(b, "s", { after: 0, until: isAgents });
      await expect.poll(async () => (await b.client.sessions.get("s")).status, POLL).toBe("running");
      await a.kill();
      await readTurn(b, "s", after);
      await send(b, "s", script({ say: "again" }));
      await expect.poll(async () => assistantTexts(await eventsOf(b, "s")).at(-1), POLL).toBe("again");
      await expect.poll(async () => (await b.client.sessions.get("s")).status, POLL).toBe("idle");
      // The resend is known.
      await send(b, "s", script({ say: "hello" }, { shell: "echo one" }), "key");
      const all = await eventsOf(b, "s");
      expectLawful(all);
      expect(all.filter(({ type }) => type === "input.accepted")).toHaveLength(3);
      await a.start();
    } finally {
      await closeAll();
      await pooler.stop();
    }
  });

  it("refuse a standby, warn of an asynchronous one, and lose nothing to a synchronous failover in mid-turn", async () => {
    const standby = await startPostgres(bin ?? "", [], { standbyOf: primary });
    const wire: Wire = await openWire(primary.port);
    try {
      const sql = primary.admin();
      const standbys = async (state: string): Promise<number> =>
        Number(
          (await sql.unsafe(`SELECT count(*) FROM pg_stat_replication WHERE sync_state = '${state}'`))[0]?.[
            "count"
          ],
        );
      await expect.poll(() => standbys("async"), POLL).toBe(1);
      const url = await primary.createDatabase();
      const name = new URL(url).pathname.slice(1);
      const first = await node("a", url);
      // The notes come after the first line of stdout.
      await expect.poll(() => first.stderr(), POLL).toContain("its standby is asynchronous");
      await closeAll();
      await expect(node("a", standby.urlOf(name))).rejects.toThrow("it can only be read: it is a standby");
      // The doctor says why as well, where a read or a LISTEN would be refused in PostgreSQL's words.
      await sql.unsafe("CREATE ROLE guest LOGIN");
      expect((await checkDatabase(standby.urlOf(name))).hint).toContain("name the primary server");
      expect((await checkDatabase(primary.urlOf(name, "guest"))).hint).toContain("may not use the schema");

      await sql.unsafe("ALTER SYSTEM SET synchronous_standby_names = '*'");
      await sql.unsafe("SELECT pg_reload_conf()");
      await expect.poll(() => standbys("sync"), POLL).toBe(1);
      const address = new URL(url);
      address.port = String(wire.port);
      const [a, b] = [await node("a", address.href), await node("b", address.href)];
      await expect.poll(() => a.stderr(), POLL).toContain("this is its node a");
      expect(a.stderr().split("this is its node a").at(-1)).not.toContain("asynchronous");
      await create(a, "s");
      const steps = Array.from({ length: 12 }, (_, n) => [{ say: `step ${n}` }, { shell: "sleep 0.4" }]);
      await send(b, "s", script(...steps.flat()), "key");
      const seen: SluiceEvent[] = [];
      const until = ({ data }: { data: string }): boolean => {
        seen.push(JSON.parse(data) as SluiceEvent);
        return data.includes("step 3");
      };
      await readFrames(b, "s", { after: 0, until });
      await primary.kill();
      await standby.admin().unsafe("ALTER SYSTEM SET synchronous_standby_names = ''");
      await standby.admin().unsafe("SELECT pg_promote()");
      wire.lead(standby.port);
      const rest = await readTurn(b, "s", seen.at(-1)?.sequence ?? 0);
      const all = await eventsOf(a, "s");
      expect([...seen, ...rest]).toEqual(all.slice(0, seen.length + rest.length));
      expectLawful(all);
      expect(rest.at(-1)).toMatchObject({ type: "turn.ended", data: { status: "completed" } });
      expect(assistantTexts(all)).toEqual(steps.map((_, n) => `step ${n}`));
    } finally {
      await closeAll();
      await wire.close();
      await standby.stop();
    }
  });
});
