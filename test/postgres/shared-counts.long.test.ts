import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Connections } from "../../src/postgres/connections.ts";
import { migrate } from "../../src/postgres/migrations.ts";
import { NODE_TABLES } from "../../src/postgres/node-tables.ts";
import { SharedCounts } from "../../src/postgres/shared-counts.ts";
import { WorkspaceRates } from "../../src/sessions/turn/workspace-rate.ts";
import { requirePostgres, startPostgres, type TestPostgres } from "../support/postgres.ts";

const { bin, reason } = requirePostgres();

describe.skipIf(bin === undefined)(reason ?? "counts over all nodes", { timeout: 60_000 }, () => {
  let postgres: TestPostgres;
  let counts: SharedCounts[];
  beforeAll(async () => {
    postgres = await startPostgres(bin ?? "");
    const url = await postgres.createDatabase();
    const connections = await Connections.create({ url, max: 1 });
    await migrate(connections, NODE_TABLES);
    await connections.close();
    counts = await Promise.all(["a", "b", "c"].map((node) => SharedCounts.create({ url, node })));
  }, 60_000);
  afterAll(async () => {
    for (const each of counts) await each.close();
    await postgres?.stop();
  }, 60_000);
  const of = (n: number): SharedCounts => counts[n % counts.length] as SharedCounts;

  it("give no more tokens than one bucket has, to 64 requests at once", async () => {
    const size = { perMinute: 1, burst: 10 };
    const asked = Array.from({ length: 64 }, (_, n) => of(n).take("team", size));
    const waits = await Promise.all(asked);
    expect(waits.filter((wait) => wait === 0)).toHaveLength(10);
    for (const wait of waits.filter((each) => each > 0)) expect(wait).toBeLessThanOrEqual(60_000);
    expect(await of(0).take("other", size)).toBe(0);
    // The bucket fills with time.
    expect(await of(1).take("fast", { perMinute: 60_000, burst: 1 })).toBe(0);
    await expect.poll(() => of(2).take("fast", { perMinute: 60_000, burst: 1 })).toBe(0);
  });

  it("tell the model requests of a workspace to the other nodes, for a minute", async () => {
    const [a, b] = [0, 1].map((n) => new WorkspaceRates({ shared: of(n), isLimited })) as [
      WorkspaceRates,
      WorkspaceRates,
    ];
    const started = { type: "started", id: "r", wire: "chat", provider: "p" } as const;
    a.note("team", "one", { ...started, time: Date.now() });
    a.note("team", "one", { ...started, time: Date.now() - 59_000 });
    a.note("free", "one", { ...started, time: Date.now() });
    await expect.poll(() => sum(b, "team", "two")).toBe(2);
    expect(await sum(a, "team", "one")).toBe(0);
    expect(await sum(a, "team", "three")).toBe(2);
    // A workspace without a limit costs no statement.
    expect(await sum(b, "free", "two")).toBe(0);
    await expect.poll(() => sum(b, "team", "two"), { timeout: 20_000 }).toBe(1);
  });

  it("fail soon where the database is away, so that a node counts alone", async () => {
    await postgres.kill();
    await expect(of(0).take("team", { perMinute: 1, burst: 1 })).rejects.toThrow();
    const rates = new WorkspaceRates({ shared: of(0), isLimited: () => true });
    rates.note("team", "one", {
      type: "started",
      id: "r",
      wire: "chat",
      provider: "p",
      time: Date.now(),
    });
    expect(await rates.others("team", "two")).toMatchObject([{ requests: 1 }]);
    await postgres.start();
  });
});

function isLimited(tenant: string): boolean {
  return tenant === "team";
}

async function sum(rates: WorkspaceRates, tenant: string, session: string): Promise<number> {
  return (await rates.others(tenant, session)).reduce((all, { requests }) => all + requests, 0);
}
