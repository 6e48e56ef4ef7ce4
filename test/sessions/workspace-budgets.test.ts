import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createSqliteLog } from "../../src/log/index.ts";
import { createEngine, type Engine } from "../../src/sessions/index.ts";
import {
  ofType,
  openEngine,
  readAll,
  runTurn,
  say,
  script,
  SCRIPTED,
  waitFor,
  type TestEngine,
} from "../support/engine.ts";
import { expectLawful } from "../support/laws.ts";

const LIMITS = { workspaceBudget: (tenant: string) => (tenant === "team" ? { usd: 1 } : undefined) };
const spend = (cost_usd: number): unknown[] => [
  { usage: { input_tokens: 10, output_tokens: 1, cost_usd } },
  { shell: "sleep 0.3" },
];

describe("the budget of a workspace", () => {
  let test: TestEngine;
  let other: { engine: Engine; close(): Promise<void> };
  beforeEach(async () => {
    test = await openEngine(LIMITS);
    const log = await createSqliteLog({ folder: test.folder });
    // Two engines of one process cannot tell their leases apart, so this one picks up no session of the other.
    const limits = { sweepMs: 600_000 };
    const engine = await createEngine({ dataDir: test.folder, ...LIMITS, limits, log });
    other = {
      engine,
      async close() {
        await engine.close();
        await log.close();
      },
    };
  });
  afterEach(async () => {
    await other.close();
    await test.close();
  });

  it("holds over two sessions, on two servers, and over deleted sessions", async () => {
    await test.engine.create("one", SCRIPTED, { tenant: "team" });
    await other.engine.create("two", SCRIPTED, { tenant: "team" });
    await other.engine.create("else", SCRIPTED, { tenant: "others" });
    expect((await runTurn(test, "one", script(...spend(0.6)))).data.status).toBe("completed");
    await say(other.engine, "two", script(...spend(0.6), ...spend(0.6), ...spend(0.6)));
    const end = await waitFor(test.log, "two", "turn.ended");
    expect(end.data).toMatchObject({ status: "failed", stop_reason: "budget_reached" });
    const events = await readAll(test.log, "two");
    // The request that crossed the limit is the last one.
    expect(ofType(events, "model.ended").filter(({ data }) => data.usage?.cost_usd === 0.6)).toHaveLength(1);
    expect(ofType(events, "budget.reached")[0]?.data).toMatchObject({
      scope: "workspace",
      measure: "usd",
      limit: 1,
      spent: 1.2,
      action: "stop",
    });
    expect(ofType(events, "permission.requested")).toEqual([]);
    expectLawful(events);

    await test.engine.remove("one");
    await test.engine.create("three", SCRIPTED, { tenant: "team" });
    const third = await runTurn(test, "three", script({ shell: "true" }));
    expect(third.data.stop_reason).toBe("budget_reached");
    const [reached] = ofType(await readAll(test.log, "three"), "budget.reached");
    expect(reached?.data.at_start).toBe(true);
    expect(ofType(await readAll(test.log, "three"), "model.started")).toEqual([]);

    await say(other.engine, "else", script(...spend(5), { say: "free" }));
    expect((await waitFor(test.log, "else", "turn.ended")).data.status).toBe("completed");
  });

  it("cannot be raised by the settings of a session", async () => {
    await test.engine.create("s", { ...SCRIPTED, budget: { usd: 1_000 } }, { tenant: "team" });
    await runTurn(test, "s", script(...spend(1.5)));
    await test.engine.update("s", { settings: { budget: { usd: 1_000_000 } } });
    expect((await runTurn(test, "s", script({ say: "more" }))).data.stop_reason).toBe("budget_reached");
  });
});
