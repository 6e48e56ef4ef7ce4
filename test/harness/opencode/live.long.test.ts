import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ContentPart } from "../../../src/contract/index.ts";
import { ofType, readAll, script } from "../../support/engine.ts";
import { expectLawful } from "../../support/laws.ts";
import { type AgentBench, SUMS } from "../agent-bench.ts";
import { DOT } from "../pictures.ts";
import { callNamesOf, outcomesOf, wordsOf } from "../told.ts";
import { OPENCODE, describeLive } from "../live-agents.ts";

describeLive(OPENCODE, 120_000, () => {
  let bench: AgentBench;
  beforeAll(async () => {
    bench = await OPENCODE.open();
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
      }),
    );

    it("thinks and speaks, and every request of it is counted", async () => {
      const { end, events } = await bench.play(
        "free",
        { think: "Let me think." },
        { say: "Hello from the model.", chunks: 4 },
      );
      expect(end).toMatchObject({ status: "completed", stop_reason: "end_turn" });
      expect(wordsOf(events, "reasoning")).toEqual(["Let me think."]);
      expect(wordsOf(events)).toEqual(["Hello from the model."]);
      expect(ofType(events, "item.delta").length).toBeGreaterThan(3);
      const [request] = ofType(events, "model.ended");
      expect(request?.data.usage).toEqual(end.usage);
      expect(end.usage?.reasoning_tokens).toBeGreaterThan(0);
    });

    it("gets the session's instructions, skills and variant", () => {
      const [request] = bench.model.requests;
      expect(JSON.stringify(request?.body)).toContain("Always mention the heron.");
      expect(JSON.stringify(request?.body)).toContain("How to greet a heron");
      expect(request?.body).toMatchObject({ model: "scripted", reasoning_effort: "low" });
    });

    it("runs commands and says how they ended", async () => {
      const { events } = await bench.play("free", { shell: "echo out; exit 3" }, { say: "done" });
      expect(callNamesOf(events)).toEqual(["bash"]);
      expect(outcomesOf(events)).toEqual([
        { status: "failed", output: "out\n", rest: [{ type: "json", json: { exit_code: 3 } }] },
      ]);
    });

    it("writes and edits files, and shows the difference", async () => {
      const { events } = await bench.play(
        "free",
        { write: { path: "a.txt", content: "one\n" } },
        { edit: { path: "a.txt", old: "one", new: "two" } },
        { say: "done" },
      );
      expect(callNamesOf(events)).toEqual(["write", "edit"]);
      const refs = outcomesOf(events).flatMap(({ rest }) => rest) as Extract<
        ContentPart,
        { type: "file_ref" }
      >[];
      expect(refs.map(({ action }) => action)).toEqual(["write", "patch"]);
      expect(refs[1]?.diff).toContain("-one\n+two\n");
    });

    it("does several things at once, plans, and calls an MCP server", async () => {
      const { events } = await bench.play(
        "free",
        { parallel: [{ shell: "echo one" }, { shell: "echo two" }] },
        { plan: [{ content: "Count", status: "in_progress", priority: "high" }] },
        { mcp: { server: "sums", tool: "add", input: { a: 2, b: 40 } } },
        { say: "done" },
      );
      expect(callNamesOf(events)).toEqual(["bash", "bash", "todowrite", "mcp__sums__add"]);
      expect(outcomesOf(events).map(({ output }) => output)).toEqual(
        expect.arrayContaining(["one\n", "two\n", "42"]),
      );
      expect(ofType(events, "plan.updated")[0]?.data.entries).toEqual([
        { content: "Count", status: "in_progress", priority: "high" },
      ]);
    });

    it("has a sub-agent whose work is under its call", async () => {
      const { events } = await bench.play(
        "free",
        { subagent: { name: "r", steps: [{ shell: "echo nested" }, { say: "Nested." }] } },
        { say: "done" },
      );
      expect(wordsOf(events)).toEqual(["done"]);
      const task = ofType(events, "item.completed").find(({ data }) =>
        JSON.stringify(data).includes('"name":"task"'),
      );
      const nested = events.filter((event) => event.parent_id === task?.data.item.item_id);
      expect(outcomesOf(nested).map(({ output }) => output)).toEqual(["nested\n"]);
      expect(JSON.stringify(nested)).toContain("Nested.");
    });

    it("asks the user, and gets the answer", async () => {
      const { events } = await bench.say(
        "free",
        script({ question: { prompt: "Which colour?", options: ["Red", "Blue"] } }, { say: "done" }),
        async ({ until }) => {
          const { data } = await until("question.requested");
          expect(data).toMatchObject({ prompt: "Which colour?", options: ["Red", "Blue"] });
          await bench.test.engine.resolveQuestion("free", data.question_id, { answers: [["Blue"]] });
        },
      );
      expect(outcomesOf(events)[0]?.output).toContain("Blue");
    });

    it("sees images, and knows where a file is", async () => {
      bench.model.reset();
      await bench.say("free", [
        { type: "text", text: script({ say: "seen" }) },
        { type: "image", path: `data:image/png;base64,${DOT}`, mime: "image/png" },
        { type: "file_ref", path: "/workspace/report.pdf", action: "read" },
      ]);
      const body = JSON.stringify(bench.model.requests[0]?.body);
      expect(body).toContain(DOT);
      expect(body).toContain("/workspace/report.pdf");
    });

    it("takes a message into the running turn", async () => {
      const { events } = await bench.say(
        "free",
        script({ shell: "sleep 2; echo first" }, { say: "never said" }),
        async ({ until }) => {
          await until("item.completed", ({ data }) => data.item.kind === "tool_call");
          const content = [{ type: "text" as const, text: script({ say: "steered" }) }];
          await bench.test.engine.send("free", { content, via: "test", delivery: "steer" });
        },
      );
      expect(wordsOf(events)).toEqual(["steered"]);
      expect(ofType(events, "turn.ended")).toHaveLength(1);
    });

    it("compacts its context when told to", async () => {
      const { end, events } = await bench.say("free", "/compact");
      expect(end.status).toBe("completed");
      const [compacted] = ofType(events, "context.compacted");
      expect(compacted?.data.trigger).toBe("manual");
      expect(compacted?.data.summary).not.toBe("");
      expect(wordsOf(events)).toEqual([]);
    });

    it.each([
      ["rate_limited", "rate_limited"],
      ["server_error", "server_error"],
      ["overloaded", "overloaded"],
    ])("tries again after a model that is %s, and says why and when", async (kind, code) => {
      const { end, events } = await bench.play("free", { fail: { kind, times: 1 } }, { say: "recovered" });
      expect(end.status).toBe("completed");
      expect(ofType(events, "turn.retrying").map(({ data }) => [data.attempt, data.error.code])).toEqual([
        [1, code],
      ]);
      expect(ofType(events, "turn.retrying")[0]?.data.delay_ms).toBeGreaterThan(0);
      expect(ofType(events, "turn.resumed")).toHaveLength(1);
      expect(wordsOf(events)).toEqual(["recovered"]);
    });

    it("compacts a context that is too long by itself, and says that it was", async () => {
      const { events } = await bench.play(
        "free",
        { fail: { kind: "context_length", times: 1 } },
        { say: "after" },
      );
      expect(ofType(events, "error")[0]?.data.code).toBe("context_length");
      expect(ofType(events, "context.compacted")[0]?.data.trigger).toBe("overflow");
      expect(ofType(events, "turn.ended")).toHaveLength(1);
    });

    it("shows a text whose stream was cut once", async () => {
      const { end, events } = await bench.play(
        "free",
        { fail: { kind: "cut", times: 1 } },
        { say: "This sentence survives on the second attempt." },
      );
      expect(end.status).toBe("completed");
      expect(ofType(events, "turn.retrying")).toHaveLength(1);
      expect(wordsOf(events).join("")).toBe("This sentence survives on the second attempt.");
    });

    it("fails where trying again is no use, and goes on", async () => {
      const { end, events } = await bench.play(
        "free",
        { fail: { kind: "terminal", times: 1 } },
        { say: "never" },
      );
      expect(end).toMatchObject({
        status: "failed",
        stop_reason: "end_turn",
        error: { code: "invalid_request" },
      });
      expect(ofType(events, "error")).toHaveLength(1);
      expect((await bench.play("free", { say: "still here" })).end.status).toBe("completed");
    });

    it("stops in mid-sentence and in the middle of a command, and goes on", async () => {
      const speaking = await bench.say(
        "free",
        script({ say: "word ".repeat(200), chunks: 200 }, { sleep: 20_000 }, { say: "never" }),
        async ({ until }) => {
          await until("item.delta");
          await bench.test.engine.interrupt("free");
        },
      );
      expect(speaking.end).toMatchObject({ status: "interrupted", stop_reason: "interrupted" });
      const working = await bench.say(
        "free",
        script({ shell: "echo begun; sleep 60" }),
        async ({ until }) => {
          await until("item.delta", ({ data }) => data.delta.includes("begun"));
          await bench.test.engine.interrupt("free");
        },
      );
      expect(working.end).toMatchObject({ status: "interrupted", stop_reason: "interrupted" });
      expect((await bench.play("free", { say: "here" })).end.status).toBe("completed");
    });

    it("remembers after its process was killed, in another", async () => {
      await bench.play("free", { say: "Remember the heron." });
      await bench.killAgent("free");
      const { end, events } = await bench.play("free", { say: "$history" });
      expect(end.status).toBe("completed");
      expect(wordsOf(events).join("\n")).toContain("Remember the heron.");
      const [first, second] = ofType(await readAll(bench.test.log, "free"), "process.started");
      expect(first?.data.resumed).toBeUndefined();
      expect(second?.data.resumed).toMatch(/^ses_/);
    });

    it("left a lawful log, in which nothing was unparsed", async () => {
      const events = await readAll(bench.test.log, "free");
      expectLawful(events);
      expect(ofType(events, "agent.unparsed")).toEqual([]);
    });
  });
});
