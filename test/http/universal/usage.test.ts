import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { UsageReport } from "../../../src/contract/index.ts";
import { runTurn, script } from "../../support/engine.ts";
import { type AccessBench, openAccess, OPERATOR } from "../access/access-bench.ts";

describe("GET /v1/usage", () => {
  let bench: AccessBench;
  beforeEach(async () => {
    bench = await openAccess();
    const use = async (id: string, tenant: string, cost: number | undefined): Promise<void> => {
      const spec = {
        agent: "scripted",
        sandbox: "bwrap",
        network: "none",
        model: `model-of-${tenant}`,
      } as const;
      await bench.test.engine.create(id, spec, { tenant });
      const usage = {
        input_tokens: 100,
        output_tokens: 10,
        ...(cost === undefined ? {} : { cost_usd: cost }),
      };
      const steps = [{ usage }, { shell: "true" }, { usage }, { say: "x" }];
      await runTurn(bench.test, id, script(...steps));
    };
    await use("one-of-a", "a", 0.25);
    await use("two-of-a", "a", undefined);
    await use("one-of-b", "b", 1);
  });
  afterEach(() => bench.close());

  const read = async (token: string, query = ""): Promise<UsageReport> => {
    const response = await bench.as(token, "GET", `/v1/usage${query}`);
    expect(response.status, await response.clone().text()).toBe(200);
    return (await response.json()) as UsageReport;
  };

  it("adds up once, by everything, with the same total", async () => {
    const sums = await Promise.all(
      ["session", "model", "day", "workspace"].map((by) => read(OPERATOR, `?by=${by}`)),
    );
    for (const { total } of sums) {
      expect(total).toEqual({
        requests: 6,
        input_tokens: 600,
        output_tokens: 60,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        cost_usd: 2.5,
        unknown_requests: 2,
        plan_requests: 0,
      });
    }
    expect(sums[0]?.rows.map(({ session, cost_usd }) => [session, cost_usd])).toEqual([
      ["one-of-a", 0.5],
      ["one-of-b", 2],
      ["two-of-a", "unknown"],
    ]);
    const info = await bench.test.engine.info("one-of-a");
    expect(info.usage).toMatchObject({ input_tokens: 200, output_tokens: 20, cost_usd: 0.5 });
    const turns = await read(OPERATOR, "?by=turn&session=one-of-a");
    const requests = await read(OPERATOR, "?by=request&session=one-of-a");
    expect([turns.rows.length, requests.rows.length]).toEqual([1, 2]);
    expect(turns.total).toEqual(requests.total);
    expect(turns.total).toMatchObject({ requests: 2, input_tokens: 200, cost_usd: 0.5 });
  });

  it("shows a workspace its own sessions alone, and no log of another", async () => {
    const report = await read("key-of-a");
    expect(report.rows.map(({ session }) => session)).toEqual(["one-of-a", "two-of-a"]);
    expect((await read("key-of-a", "?session=one-of-b")).rows).toEqual([]);
    expect((await read("key-of-b", "?by=workspace")).rows).toMatchObject([{ workspace: "b", cost_usd: 2 }]);
    const other = await bench.as("key-of-a", "GET", "/v1/usage?by=request&session=one-of-b");
    expect(other.status).toBe(404);
    const { token } = await bench.token({
      scope: "read",
      workspace: "a",
      session: "two-of-a",
      name: "narrow",
    });
    expect((await read(token)).rows.map(({ session }) => session)).toEqual(["two-of-a"]);
  });

  it("keeps the usage of a deleted session", async () => {
    await bench.test.engine.remove("one-of-a");
    expect((await read("key-of-a")).total).toMatchObject({ requests: 4, cost_usd: 0.5 });
  });

  it.each(["?by=moon", "?by=turn", "?from=yesterday", "?from=2026-13-01"])("refuses %s", async (query) => {
    const response = await bench.as(OPERATOR, "GET", `/v1/usage${query}`);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ detail: expect.any(String) });
  });
});
