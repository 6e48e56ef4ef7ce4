import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ofType, readAll, say, script, waitFor } from "../../support/engine.ts";
import { expectLawful } from "../../support/laws.ts";
import { type AgentBench } from "../agent-bench.ts";
import { outcomesOf, wordsOf } from "../told.ts";
import { OPENCODE, describeLive } from "../live-agents.ts";

describeLive(OPENCODE, 120_000, () => {
  let bench: AgentBench;
  beforeAll(async () => {
    bench = await OPENCODE.open();
  });
  afterAll(() => bench.close(), 60_000);

  describe("with permissions on request", () => {
    beforeAll(() =>
      bench.create("asks", { retries: { tries: 2, backoffMs: 250 }, systemPrompt: "You are a heron." }),
    );

    it("may do it once, or not, and is told why not", async () => {
      const once = await bench.ask(
        "asks",
        { reply: "once" },
        { shell: "echo a > once.txt" },
        { say: "done" },
      );
      expect(outcomesOf(once.events).map(({ status }) => status)).toEqual(["completed"]);
      expect(wordsOf(once.events)).toEqual(["done"]);
      expect(JSON.stringify(bench.model.requests.at(-1)?.body)).toContain("You are a heron.");
      const denied = await bench.ask(
        "asks",
        { reply: "reject" },
        { shell: "echo b > never.txt" },
        { say: "done" },
      );
      expect(denied.end.status).toBe("completed");
      expect(outcomesOf(denied.events).map(({ status }) => status)).toEqual(["failed"]);
      const told = await bench.ask(
        "asks",
        { reply: "reject", message: "Use a heron instead." },
        { write: { path: "never.txt", content: "c" } },
        { say: "done" },
      );
      expect(outcomesOf(told.events)[0]?.output).toContain("Use a heron instead.");
      expect(wordsOf(told.events)).toEqual(["done"]);
    });

    it("may do it for the whole session", async () => {
      await bench.ask("asks", { reply: "always" }, { shell: "mkdir -p for-good" }, { say: "done" });
      const { events } = await bench.play("asks", { shell: "mkdir -p for-good/too" }, { say: "done" });
      expect(ofType(events, "permission.requested")).toEqual([]);
      expect(outcomesOf(events).map(({ status }) => status)).toEqual(["completed"]);
    });

    it("stops while it asks", async () => {
      const { end, events } = await bench.say("asks", script({ shell: "touch never" }), async ({ until }) => {
        await until("permission.requested");
        await bench.test.engine.interrupt("asks");
      });
      expect(end).toMatchObject({ status: "interrupted", stop_reason: "interrupted" });
      expect(ofType(events, "permission.resolved").map(({ data }) => data.status)).toEqual(["denied"]);
    });

    it("gives up when the session's tries are used up", async () => {
      const { end, events } = await bench.play(
        "asks",
        { fail: { kind: "overloaded", times: 9 } },
        { say: "never" },
      );
      expect(end).toMatchObject({
        status: "failed",
        stop_reason: "retries_exhausted",
        error: { code: "overloaded" },
      });
      expect(ofType(events, "turn.retrying").map(({ data }) => data.attempt)).toEqual([1, 2]);
    });

    it("goes on while the engine is gone, and asks the next one", async () => {
      const { turnId, after } = await say(
        bench.test.engine,
        "asks",
        script({ shell: "sleep 1; touch late" }, { say: "the end" }),
      );
      const { data } = await waitFor(bench.test.log, "asks", "permission.requested", {
        after,
        timeoutMs: 60_000,
      });
      await bench.test.restart();
      await bench.test.engine.resolvePermission("asks", data.permission_id, { reply: "once" });
      await waitFor(bench.test.log, "asks", "item.completed", {
        after,
        where: ({ data }) => data.item.kind === "tool_call",
      });
      await bench.test.restart();
      await waitFor(bench.test.log, "asks", "turn.ended", {
        after,
        where: ({ data }) => data.turn_id === turnId,
        timeoutMs: 60_000,
      });
      const events = await readAll(bench.test.log, "asks");
      expect(wordsOf(events.slice(after))).toEqual(["the end"]);
      expect(ofType(events, "process.started")).toHaveLength(1);
      expectLawful(events);
    });

    it("ends the session where its key is not accepted", async () => {
      const { end } = await bench.play("asks", { fail: { kind: "unauthorized", times: 9 } });
      expect(end).toMatchObject({
        status: "failed",
        stop_reason: "model_error",
        error: { code: "unauthorized" },
      });
      await waitFor(bench.test.log, "asks", "session.ended");
    });
  });

  it("works behind walls with another provider, makes plans only, and reaches its model only", async () => {
    await bench.create("walled", {
      sandbox: "bwrap",
      permissionMode: "plan",
      model: "claude-sonnet-4-5",
      env: { ANTHROPIC_BASE_URL: bench.model.url, ANTHROPIC_API_KEY: "sk-ant-none" },
      network: { allow: [`127.0.0.1:${bench.model.port}`] },
    });
    const { end, events } = await bench.say(
      "walled",
      script({ think: "Hm." }, { shell: "pwd" }, { say: "done" }),
      async ({ until }) => {
        const { data } = await until("permission.requested");
        await bench.test.engine.resolvePermission("walled", data.permission_id, { reply: "once" });
      },
    );
    expect(end.status).toBe("completed");
    expect(outcomesOf(events)[0]?.output).toMatch(/workspace\n$/);
    const last = bench.model.requests.at(-1);
    expect(last?.wire).toBe("anthropic");
    expect(JSON.stringify(last?.body)).toMatch(/plan mode/i);
  });
});
