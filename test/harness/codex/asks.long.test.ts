import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ofType, processesWith, readAll, say, script, waitFor } from "../../support/engine.ts";
import { expectLawful } from "../../support/laws.ts";
import { type AgentBench, SUMS } from "../agent-bench.ts";
import { outcomesOf, wordsOf } from "../told.ts";
import { CODEX, describeLive } from "../live-agents.ts";

const PLAN = "Here it is.\n<proposed_plan>\n# Two steps\n- look\n- act\n</proposed_plan>\n";

describeLive(CODEX, 90_000, () => {
  let bench: AgentBench;
  beforeAll(async () => {
    bench = await CODEX.open();
  });
  afterAll(() => bench.close(), 60_000);

  describe("with permissions on request", () => {
    beforeAll(() =>
      bench.create("asks", {
        retries: { tries: 2, backoffMs: 250 },
        mcp: { sums: SUMS },
      }),
    );

    it("may do it once, or not, and is told why not", async () => {
      const once = await bench.ask("asks", { reply: "once" }, { shell: "touch once.txt" }, { say: "done" });
      expect(outcomesOf(once.events).map(({ status }) => status)).toEqual(["completed"]);
      expect(wordsOf(once.events)).toEqual(["done"]);
      const denied = await bench.ask(
        "asks",
        { reply: "reject" },
        { shell: "touch never.txt" },
        { say: "done" },
      );
      expect(denied.end.status).toBe("completed");
      expect(outcomesOf(denied.events)).toEqual([{ status: "failed", output: "declined", rest: [] }]);
      const write = { write: { path: "never.txt", content: "c" } };
      const told = await bench.ask("asks", { reply: "reject", message: "Use a heron instead." }, write, {
        say: "done",
      });
      expect(told.end.status).toBe("completed");
      expect(outcomesOf(told.events).map(({ status }) => status)).toEqual(["failed"]);
      expect(JSON.stringify(bench.model.requests.at(-1)?.body)).toContain("Use a heron instead.");
    });

    it("may do it for the whole session: a command, a change of a file, a tool of an MCP server", async () => {
      const steps = [
        { shell: "touch again" },
        { write: { path: "b.txt", content: "b\n" } },
        { mcp: { server: "sums", tool: "add", input: { a: 1, b: 1 } } },
      ];
      for (const step of steps) {
        const first = await bench.ask("asks", { reply: "always" }, step, { say: "done" });
        expect(ofType(first.events, "permission.requested")).toHaveLength(1);
        const second = await bench.play("asks", step, { say: "done" });
        expect(ofType(second.events, "permission.requested")).toEqual([]);
        expect(outcomesOf(second.events).map(({ status }) => status)).toEqual(["completed"]);
      }
    });

    it("stops while it asks", async () => {
      const { end, events } = await bench.say("asks", script({ shell: "touch never" }), async ({ until }) => {
        await until("permission.requested");
        await bench.test.engine.interrupt("asks");
      });
      expect(end).toMatchObject({ status: "interrupted", stop_reason: "interrupted" });
      expect(ofType(events, "permission.resolved").map(({ data }) => data.status)).toEqual(["denied"]);
    });

    it.each(["server_error", "overloaded"])(
      "gives up when the session's tries are used up by %s",
      async (kind) => {
        const { end } = await bench.play("asks", { fail: { kind, times: 9 } }, { say: "never" });
        expect(end).toMatchObject({
          status: "failed",
          stop_reason: "retries_exhausted",
          error: { code: kind },
        });
        expect(wordsOf((await bench.play("asks", { say: "here" })).events)).toEqual(["here"]);
      },
    );

    it("goes on while the engine is gone, and asks the next one", async () => {
      const { turnId, after } = await say(
        bench.test.engine,
        "asks",
        script({ shell: "sleep 1; touch late" }, { say: "the end" }),
      );
      const { data } = await waitFor(bench.test.log, "asks", "permission.requested", { after });
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
      });
      const events = await readAll(bench.test.log, "asks");
      expect(wordsOf(events.slice(after))).toEqual(["the end"]);
      expect(ofType(events, "process.started")).toHaveLength(1);
      expect(ofType(events, "agent.unparsed")).toEqual([]);
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

  it("plans first, and acts when the plan is approved", async () => {
    await bench.create("plans", { permissionMode: "plan" });
    const left = await bench.ask("plans", { reply: "reject" }, { say: PLAN });
    expect(left.end).toMatchObject({ status: "completed", stop_reason: "end_turn" });
    expect(outcomesOf(left.events)).toEqual([{ status: "failed", output: "declined", rest: [] }]);
    const approved = await bench.ask("plans", { reply: "once" }, { say: PLAN });
    const [asked] = ofType(approved.events, "permission.requested");
    expect(asked?.data.metadata).toMatchObject({
      kind: "plan",
      input: { plan: "# Two steps\n- look\n- act\n" },
    });
    expect(approved.end.status).toBe("completed");
    expect(wordsOf(approved.events).join("\n")).toContain("Implement the plan.");
    expectLawful(await readAll(bench.test.log, "plans"));
  });

  it("works behind walls, and reaches its model only", async () => {
    await bench.create("walled", {
      sandbox: "bwrap",
      permissionMode: "acceptEdits",
      network: { allow: [`127.0.0.1:${bench.model.port}`] },
    });
    const steps = [
      { write: { path: "in.txt", content: "inside\n" } },
      { shell: "pwd; touch done.txt; cat in.txt" },
      { say: "done" },
    ];
    const { end, events } = await bench.say("walled", script(...steps), async ({ until }) => {
      const { data } = await until("permission.requested", (event) => event.data.action === "exec_command");
      await bench.test.engine.resolvePermission("walled", data.permission_id, { reply: "once" });
    });
    expect(end.status).toBe("completed");
    expect(outcomesOf(events).at(-1)?.output).toBe("/home/user/workspace\ninside\n");
    const decided = ofType(events, "permission.resolved").map(({ data }) => data.metadata as { by?: string });
    expect(decided[0]?.by).toBe("policy:acceptEdits");
    expectLawful(await readAll(bench.test.log, "walled"));
  });

  it("gets the key of the host's environment by a file, and shows it nowhere", async () => {
    const key = "sk-test-0123456789abcdef";
    const known = process.env["OPENAI_API_KEY"];
    process.env["OPENAI_API_KEY"] = key;
    try {
      await bench.create("keyed");
      const { end } = await bench.say(
        "keyed",
        script({ shell: "cat ~/.codex/auth.json; ls" }),
        async ({ until }) => {
          const { data } = await until("permission.requested");
          for (const pid of await processesWith("app-server")) {
            const shown = ["cmdline", "environ"].map((file) =>
              readFile(`/proc/${pid}/${file}`, "utf8").catch(() => ""),
            );
            expect((await Promise.all(shown)).join("")).not.toContain(key);
          }
          await bench.test.engine.resolvePermission("keyed", data.permission_id, { reply: "once" });
        },
      );
      expect(end.status).toBe("completed");
      const events = JSON.stringify(await readAll(bench.test.log, "keyed", true));
      expect(events).toContain("OPENAI_API_KEY");
      expect(events).not.toContain(key);
    } finally {
      if (known === undefined) delete process.env["OPENAI_API_KEY"];
      else process.env["OPENAI_API_KEY"] = known;
    }
  });
});
