import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ContentPart } from "../../../src/contract/index.ts";
import { ofType, readAll, script } from "../../support/engine.ts";
import { expectLawful } from "../../support/laws.ts";
import { type AgentBench, SUMS } from "../agent-bench.ts";
import { DOT } from "../pictures.ts";
import { callNamesOf, outcomesOf, wordsOf } from "../told.ts";
import { CODEX, describeLive } from "../live-agents.ts";

describeLive(CODEX, 90_000, () => {
  let bench: AgentBench;
  beforeAll(async () => {
    bench = await CODEX.open();
  });
  afterAll(() => bench.close(), 60_000);

  describe("left to itself", () => {
    beforeAll(() =>
      bench.create("free", {
        permissionMode: "bypass",
        variant: "low",
        instructions: "Always mention the heron.",
        skills: [{ name: "greet", description: "How to greet a heron", content: "Bow." }],
        mcp: { sums: SUMS },
        tools: {
          custom: [
            { name: "weather", description: "Weather", inputSchema: { type: "object", properties: {} } },
          ],
        },
      }),
    );

    it("thinks and speaks, and every request of it is counted", async () => {
      const { end, events } = await bench.play(
        "free",
        { think: "Let me think." },
        { say: "Hello from the model." },
      );
      expect(end).toMatchObject({ status: "completed", stop_reason: "end_turn" });
      expect(wordsOf(events, "reasoning")).toEqual(["Let me think."]);
      expect(wordsOf(events)).toEqual(["Hello from the model."]);
      expect(ofType(events, "item.delta").length).toBeGreaterThan(3);
      const [request] = ofType(events, "model.ended");
      expect(request?.data.usage).toEqual(end.usage);
      expect(end.usage?.reasoning_tokens).toBeGreaterThan(0);
      expect((await bench.test.engine.info("free")).nativeSessionId).toMatch(/^[0-9a-f-]{36}$/);
    });

    it("gets the session's instructions, skills and variant", () => {
      const [request] = bench.model.requests;
      expect(JSON.stringify(request?.body)).toContain("Always mention the heron.");
      expect(JSON.stringify(request?.body)).toContain("How to greet a heron");
      expect(request?.body).toMatchObject({ model: "gpt-5.5", reasoning: { effort: "low" } });
    });

    it("runs commands, shows their output as it comes, and says how they ended", async () => {
      const { events } = await bench.play(
        "free",
        { shell: "echo one; sleep 0.4; echo two; exit 3" },
        { say: "done" },
      );
      expect(callNamesOf(events)).toEqual(["exec_command"]);
      expect(outcomesOf(events)).toEqual([
        { status: "failed", output: "one\ntwo\n", rest: [{ type: "json", json: { exit_code: 3 } }] },
      ]);
      // Codex does not stream the first output of a command. The result has all of it.
      expect(ofType(events, "item.delta").map(({ data }) => data.delta)).toContain("two\n");
    });

    it("writes and edits files, and shows the difference", async () => {
      const { events } = await bench.play(
        "free",
        { write: { path: "a.txt", content: "one\n" } },
        { edit: { path: "a.txt", old: "one", new: "two" } },
        { say: "done" },
      );
      expect(callNamesOf(events)).toEqual(["apply_patch", "apply_patch"]);
      const refs = outcomesOf(events).flatMap(({ rest }) => rest) as Extract<
        ContentPart,
        { type: "file_ref" }
      >[];
      expect(refs.map(({ action }) => action)).toEqual(["write", "patch"]);
      expect(refs[0]?.diff).toContain("@@ -0,0 +1 @@\n+one\n");
      expect(refs[1]?.diff).toContain("-one\n+two\n");
    });

    it("does several things at once, plans, and calls an MCP server", async () => {
      const { events } = await bench.play(
        "free",
        { parallel: [{ shell: "echo one" }, { shell: "echo two" }] },
        { plan: [{ content: "Count", status: "in_progress", priority: "medium" }] },
        { mcp: { server: "sums", tool: "add", input: { a: 2, b: 40 } } },
        { mcp: { server: "sums", tool: "picture", input: {} } },
        { say: "done" },
      );
      expect(callNamesOf(events)).toEqual([
        "exec_command",
        "exec_command",
        "mcp__sums__add",
        "mcp__sums__picture",
      ]);
      const results = outcomesOf(events);
      expect(results.map(({ output }) => output).toSorted()).toEqual(["", "42", "one\n", "two\n"]);
      expect(results.at(-1)?.rest).toEqual([
        { type: "image", path: `data:image/png;base64,${DOT}`, mime: "image/png" },
      ]);
      expect(ofType(events, "plan.updated")[0]?.data.entries).toEqual([
        { content: "Count", status: "in_progress", priority: "medium" },
      ]);
      expect(ofType(events, "permission.requested")).toEqual([]);
    });

    it("has a sub-agent whose work is under its call", async () => {
      const { events, end } = await bench.play(
        "free",
        { subagent: { name: "r", steps: [{ shell: "echo nested" }, { say: "Nested." }] } },
        { say: "done" },
      );
      expect(end.status).toBe("completed");
      expect(wordsOf(events)).toEqual(["done"]);
      const spawn = ofType(events, "item.completed").find(({ data }) =>
        JSON.stringify(data).includes('"name":"spawnAgent"'),
      );
      const nested = events.filter((event) => event.parent_id === spawn?.data.item.item_id);
      expect(outcomesOf(nested).map(({ output }) => output)).toEqual(["nested\n"]);
      expect(JSON.stringify(nested)).toContain("Nested.");
      expect(ofType(nested, "model.ended").length).toBeGreaterThan(0);
    });

    it("asks the user, and gets the answer", async () => {
      const steps = [{ question: { prompt: "Which colour?", options: ["Red", "Blue"] } }, { say: "done" }];
      const { end } = await bench.say("free", script(...steps), async ({ until }) => {
        const { data } = await until("question.requested");
        expect(data).toMatchObject({ prompt: "Which colour?", options: ["Red", "Blue"] });
        await bench.test.engine.resolveQuestion("free", data.question_id, { answers: [["Blue"]] });
      });
      expect(end.status).toBe("completed");
      expect(JSON.stringify(bench.model.requests.at(-1)?.body)).toContain("Blue");
    });

    it("lets the application run a tool", async () => {
      const steps = [{ mcp: { server: "sluice", tool: "weather", input: {} } }, { say: "done" }];
      const { events } = await bench.say("free", script(...steps), async ({ until }) => {
        const { data } = await until("tool.requested");
        await bench.test.engine.resolveTool("free", data.request_id, { output: "sunny" });
      });
      expect(callNamesOf(events)).toEqual(["mcp__sluice__weather"]);
      expect(outcomesOf(events)).toEqual([{ status: "completed", output: "sunny", rest: [] }]);
    });

    it("sees images, and knows where a file is", async () => {
      bench.model.reset();
      await bench.say("free", [
        { type: "text", text: script({ say: "seen" }) },
        { type: "image", path: `data:image/png;base64,${DOT}`, mime: "image/png" },
        { type: "file_ref", path: "/workspace/report.pdf", action: "read" },
      ]);
      const body = JSON.stringify(bench.model.requests[0]?.body);
      expect(body).toContain("data:image/png;base64,");
      expect(body).toContain("/workspace/report.pdf");
    });

    it("takes a message into the running turn", async () => {
      const steps = [{ shell: "sleep 1; echo first" }, { say: "never said" }];
      const { events } = await bench.say("free", script(...steps), async ({ until }) => {
        await until("item.completed", ({ data }) => data.item.kind === "tool_call");
        const content = [{ type: "text" as const, text: script({ say: "steered" }) }];
        await bench.test.engine.send("free", { content, via: "test", delivery: "steer" });
      });
      expect(wordsOf(events)).toEqual(["steered"]);
      expect(ofType(events, "turn.ended")).toHaveLength(1);
    });

    it("compacts its context when told to", async () => {
      const { end, events } = await bench.say("free", "/compact");
      expect(end.status).toBe("completed");
      expect(ofType(events, "context.compacted").map(({ data }) => data.trigger)).toEqual(["manual"]);
      expect(wordsOf(events)).toEqual([]);
    });

    it.each([
      ["rate_limited", "rate_limited"],
      ["server_error", "server_error"],
      ["overloaded", "overloaded"],
    ])("tries again after %s, and says why", async (kind, code) => {
      const { end, events } = await bench.play("free", { fail: { kind, times: 1 } }, { say: "recovered" });
      expect(end.status).toBe("completed");
      expect(ofType(events, "turn.retrying").map(({ data }) => [data.attempt, data.error.code])).toEqual([
        [1, code],
      ]);
      expect(ofType(events, "turn.resumed")).toHaveLength(1);
      expect(wordsOf(events)).toEqual(["recovered"]);
    });

    it("shows a text whose stream was cut once", async () => {
      const text = "This sentence survives on the third attempt.";
      const { end, events } = await bench.play("free", { fail: { kind: "cut", times: 2 } }, { say: text });
      expect(end.status).toBe("completed");
      expect(ofType(events, "turn.retrying").map(({ data }) => data.error.code)).toEqual([
        "network",
        "network",
      ]);
      expect(wordsOf(events)).toEqual([text]);
    });

    it.each([
      ["terminal", "invalid_request"],
      ["context_length", "context_length"],
    ])("fails by %s, where trying again is no use, and goes on", async (kind, code) => {
      const { end, events } = await bench.play("free", { fail: { kind, times: 1 } }, { say: "never" });
      expect(end).toMatchObject({ status: "failed", stop_reason: "end_turn", error: { code } });
      expect(ofType(events, "error")).toHaveLength(1);
      expect(wordsOf((await bench.play("free", { say: "still here" })).events)).toEqual(["still here"]);
    });

    it("stops in mid-sentence and in the middle of a command, and goes on", async () => {
      const speech = script({ say: "word ".repeat(50) }, { sleep: 20_000 }, { say: "never" });
      const speaking = await bench.say("free", speech, async ({ until }) => {
        await until("item.delta");
        await bench.test.engine.interrupt("free");
      });
      expect(speaking.end).toMatchObject({ status: "interrupted", stop_reason: "interrupted" });
      const working = await bench.say("free", script({ shell: "sleep 61" }), async ({ until }) => {
        await until("item.started", ({ data }) => data.item.kind === "tool_result");
        await bench.test.engine.interrupt("free");
      });
      expect(working.end).toMatchObject({ status: "interrupted", stop_reason: "interrupted" });
      expect((await bench.play("free", { say: "here" })).end.status).toBe("completed");
    });

    it("remembers after its process was killed, in another", async () => {
      await bench.play("free", { say: "Remember the heron." });
      await bench.killAgent("free");
      const { end, events } = await bench.play("free", { say: "$history" });
      expect(end.status).toBe("completed");
      expect(wordsOf(events).join("\n")).toContain("Remember the heron.");
      const native = (await bench.test.engine.info("free")).nativeSessionId;
      const [first, second] = ofType(await readAll(bench.test.log, "free"), "process.started");
      expect(first?.data.resumed).toBeUndefined();
      expect(second?.data.resumed).toBe(native);
      expect(end.usage?.output_tokens).toBeLessThan(1000);
    });

    it("left a lawful log, in which nothing was unparsed", async () => {
      const events = await readAll(bench.test.log, "free");
      expectLawful(events);
      expect(ofType(events, "agent.unparsed")).toEqual([]);
    });
  });
});
