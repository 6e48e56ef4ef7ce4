import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Budget, EventOf, SessionSpec } from "../../src/contract/index.ts";
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
import { assistantTexts, expectLawful } from "../support/laws.ts";

/** Steps of a turn that uses some dollars before each of its tool calls. A call lasts until a busy server has frozen it. */
function spend(...amounts: number[]): unknown[] {
  return amounts.flatMap((cost_usd) => [
    { usage: { input_tokens: 100, output_tokens: 10, cost_usd } },
    { shell: "sleep 2" },
  ]);
}

/** The last words, which cost nothing. */
function finish(say: string): unknown[] {
  return [{ usage: { input_tokens: 0, cost_usd: 0 } }, { say }];
}

describe("a budget", () => {
  let test: TestEngine;
  beforeEach(async () => (test = await openEngine({ limits: { interruptMs: 2_000 } })));
  afterEach(() => test.close());

  const create = (budget: Budget, more: Partial<SessionSpec> = {}): Promise<unknown> =>
    test.engine.create("s", { ...SCRIPTED, ...more, budget });
  const asked = (after = 0): Promise<EventOf<"permission.requested">> =>
    waitFor(test.log, "s", "permission.requested", { after });
  const answer = (reply: "once" | "always" | "reject", { data }: EventOf<"permission.requested">) =>
    test.engine.resolvePermission("s", data.permission_id, { reply });
  const ended = (after = 0): Promise<EventOf<"turn.ended">> =>
    waitFor(test.log, "s", "turn.ended", { after });

  it("asks in mid-turn, freezes the agent, and lets the same turn go on", async () => {
    await create({ usd: 1 });
    await say(test.engine, "s", script(...spend(0.6, 0.6, 0.1), ...finish("through")));
    const request = await asked();
    expect(request.data).toMatchObject({
      action: "budget",
      metadata: { kind: "budget", scope: "session", measure: "usd", limit: 1, spent: 1.2 },
    });
    await waitFor(test.log, "s", "sandbox.paused");
    const info = await test.engine.info("s");
    expect(info).toMatchObject({ status: "waiting", pendingActions: [{ kind: "permission" }] });
    await sleep(500);
    expect((await test.engine.info("s")).eventCount).toBe(info.eventCount);
    await answer("once", request);
    expect((await ended()).data).toMatchObject({ status: "completed", stop_reason: "end_turn" });
    const events = await readAll(test.log, "s");
    expect(assistantTexts(events)).toEqual(["through"]);
    // The same amount again, from what was spent: 2.2.
    expect(ofType(events, "budget.reached").map(({ data }) => data)).toEqual([
      {
        scope: "session",
        measure: "usd",
        limit: 1,
        amount: 1,
        spent: 1.2,
        action: "ask",
        permission_id: request.data.permission_id,
      },
    ]);
    expectLawful(events);
  });

  it("keeps its request over a restart of the server, and asks only once", async () => {
    await create({ tokens: 150 });
    await say(test.engine, "s", script(...spend(0.1, 0.1), ...finish("through")));
    const request = await asked();
    await test.restart();
    await waitFor(test.log, "s", "sandbox.paused");
    await test.restart();
    expect((await test.engine.info("s")).pendingActions).toMatchObject([{ id: request.data.permission_id }]);
    await answer("always", request);
    expect((await ended()).data.status).toBe("completed");
    await runTurn(test, "s", script(...spend(5), ...finish("lifted")));
    const events = await readAll(test.log, "s");
    expect(ofType(events, "budget.reached")).toHaveLength(1);
    expect(assistantTexts(events)).toEqual(["through", "lifted"]);
    expectLawful(events);
  });

  it("ends the turn where somebody rejects, and asks before the next turn's message is sent", async () => {
    await create({ requests: 1 });
    await say(test.engine, "s", script(...spend(0.1), { shell: "touch later" }));
    await answer("reject", await asked());
    const first = await ended();
    expect(first.data).toMatchObject({ status: "failed", stop_reason: "budget_reached" });
    expect((await test.engine.info("s")).paused).toBe(false);
    await say(test.engine, "s", script({ say: "second" }));
    const next = await asked(first.sequence);
    expect(next.data.metadata).toMatchObject({ measure: "requests" });
    const reached = await waitFor(test.log, "s", "budget.reached", { after: first.sequence });
    expect(reached.data.at_start).toBe(true);
    await answer("reject", next);
    const second = await ended(first.sequence);
    expect(second.data.stop_reason).toBe("budget_reached");
    await say(test.engine, "s", script({ say: "third" }));
    await answer("once", await asked(second.sequence));
    expect((await ended(second.sequence)).data.status).toBe("completed");
    const events = await readAll(test.log, "s");
    expect(assistantTexts(events)).toEqual(["third"]);
    expectLawful(events);
  });

  it("with stop ends the turn with a reason of its own", async () => {
    await create({ usd: 0.5, on: "stop" });
    const end = await runTurn(test, "s", script(...spend(0.4, 0.4, 0.4), { say: "never" }));
    expect(end.data).toMatchObject({
      status: "failed",
      stop_reason: "budget_reached",
      error: { code: "budget_reached" },
    });
    const queued = await Promise.all([say(test.engine, "s", "a"), say(test.engine, "s", "b")]);
    for (const { turnId } of queued) {
      const event = await waitFor(test.log, "s", "turn.ended", {
        where: ({ data }) => data.turn_id === turnId,
      });
      expect(event.data.stop_reason).toBe("budget_reached");
    }
    const events = await readAll(test.log, "s");
    expect(assistantTexts(events)).toEqual([]);
    expect(ofType(events, "permission.requested")).toEqual([]);
    expectLawful(events);
  });

  it("stops an unattended session, which nobody can be asked in", async () => {
    await create({ usd: 0.1 }, { unattended: true });
    const end = await runTurn(test, "s", script(...spend(0.4, 0.4)));
    expect(end.data.stop_reason).toBe("budget_reached");
  });

  it("with pause stands still until the session is resumed, which allows the same amount again", async () => {
    await create({ usd: 0.5, on: "pause" });
    await say(test.engine, "s", script(...spend(0.6, 0.1), ...finish("through")));
    await waitFor(test.log, "s", "sandbox.paused");
    expect(await test.engine.info("s")).toMatchObject({ paused: true, pendingActions: [] });
    await test.restart();
    await test.engine.resume("s");
    expect((await ended()).data.status).toBe("completed");
    const events = await readAll(test.log, "s");
    expect(ofType(events, "budget.reached")).toHaveLength(1);
    expectLawful(events);
  });

  it("counts the minutes of work, and not those of waiting", async () => {
    await create({ minutes: 0.7 / 60 });
    await say(
      test.engine,
      "s",
      script({ question: { prompt: "Which?", options: ["a"] } }, { sleep: 60_000 }),
    );
    const question = await waitFor(test.log, "s", "question.requested");
    await sleep(900);
    expect(ofType(await readAll(test.log, "s"), "budget.reached")).toEqual([]);
    await test.engine.resolveQuestion("s", question.data.question_id, { answers: [["a"]] });
    const request = await asked();
    expect(request.data.metadata).toMatchObject({ measure: "minutes" });
    await answer("reject", request);
    expect((await ended()).data.stop_reason).toBe("budget_reached");
    expectLawful(await readAll(test.log, "s"));
  });

  it("is changed in mid-turn, which answers the open request", async () => {
    await create({ usd: 0.5 });
    await say(test.engine, "s", script(...spend(0.6, 0.1, 0.1), ...finish("through")));
    await asked();
    await test.engine.update("s", { settings: { budget: { usd: 0.55 } } });
    expect((await test.engine.info("s")).pendingActions).toHaveLength(1);
    await test.engine.update("s", { settings: { budget: { usd: 5 } } });
    expect((await ended()).data.status).toBe("completed");
    const events = await readAll(test.log, "s");
    expect(ofType(events, "permission.resolved")).toMatchObject([{ data: { status: "approved" } }]);
    expect((await test.engine.spec("s")).budget).toEqual({ usd: 5 });
    expectLawful(events);
  });

  it("in dollars is reached by a request without a known price", async () => {
    await create({ usd: 100 });
    await say(
      test.engine,
      "s",
      script({ usage: { input_tokens: 5 } }, { shell: "sleep 0.3" }, ...finish("through")),
    );
    const request = await asked();
    expect(request.data.metadata).toMatchObject({ measure: "usd", unpriced: 1 });
    await answer("once", request);
    expect((await ended()).data.status).toBe("completed");
    // Whoever accepted one such request is not asked again.
    expect(
      (await runTurn(test, "s", script({ usage: { input_tokens: 5 } }, { shell: "sleep 0.3" }))).data.status,
    ).toBe("completed");
  });

  it("cannot be passed by a resume of the session", async () => {
    await create({ usd: 0.5 });
    const file = `${test.folder}/passed`;
    await say(test.engine, "s", script(...spend(0.6), { shell: `touch ${file}` }));
    const request = await asked();
    const paused = await waitFor(test.log, "s", "sandbox.paused");
    await test.engine.resume("s");
    await waitFor(test.log, "s", "sandbox.paused", { after: paused.sequence });
    await answer("reject", request);
    expect((await ended()).data.stop_reason).toBe("budget_reached");
    expect(existsSync(file)).toBe(false);
  });
});
