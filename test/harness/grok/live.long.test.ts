import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ofType, readAll, waitFor } from "../../support/engine.ts";
import { assistantTexts } from "../../support/laws.ts";
import type { AgentBench } from "../agent-bench.ts";
import { describeLive, GROK } from "../live-agents.ts";
import { PICTURE } from "../pictures.ts";
import { callsOf, isCall, resultsOf } from "../told.ts";

describeLive(GROK, 60_000, () => {
  let bench: AgentBench;

  beforeAll(async () => {
    bench = await GROK.open();
  });
  afterAll(() => bench.close());

  it("thinks, speaks, runs commands side by side, writes and edits, and counts its usage", async () => {
    await bench.create("work", { permissionMode: "bypass" });
    const { end, events } = await bench.play(
      "work",
      { think: "A plan forms." },
      { say: "I begin.", chunks: 3 },
      { parallel: [{ shell: "echo one" }, { shell: "echo two >&2; exit 3" }] },
      { write: { path: "a.txt", content: "x\ny\n" } },
      { read: "a.txt" },
      { edit: { path: "a.txt", old: "y", new: "z" } },
      { say: "I am done." },
    );
    expect(end).toMatchObject({ status: "completed", stop_reason: "end_turn" });
    expect(end.usage?.input_tokens).toBeGreaterThan(0);
    expect(assistantTexts(events)).toEqual(["I begin.", "I am done."]);
    expect(JSON.stringify(events)).toContain('"type":"reasoning","text":"A plan forms."');
    const shells = resultsOf(events).slice(0, 2);
    expect(shells.map(({ status }) => status).toSorted()).toEqual(["completed", "failed"]);
    expect(JSON.stringify(shells)).toContain('{"exit_code":3}');
    const files = resultsOf(events).flatMap((item) =>
      item.content.filter((part) => part.type === "file_ref"),
    );
    expect(files.map(({ action }) => action)).toEqual(["write", "read", "patch"]);
    expect(files[2]?.diff).toContain("-y\n");
    await bench.expectLawful("work");
  });

  it("tells plans, and sub-agents under the call that started them", async () => {
    const entries = [
      { content: "One", status: "completed", priority: "medium" },
      { content: "Two", status: "in_progress", priority: "medium" },
    ];
    const planned = await bench.play("work", { plan: entries });
    expect(ofType(planned.events, "plan.updated")[0]?.data.entries).toEqual(entries);
    const steps = [{ say: "I help." }, { shell: "echo nested" }, { say: "The helper's word." }];
    const helped = await bench.play("work", { subagent: { name: "helper", steps } }, { say: "Thanks." });
    const nested = helped.events.filter((event) => event.parent_id !== undefined);
    expect(assistantTexts(nested)).toEqual(["I help.", "The helper's word."]);
    expect(callsOf(nested)).toMatchObject([
      { name: "run_terminal_command", input: { command: "echo nested" } },
    ]);
    expect(assistantTexts(helped.events)).toContain("Thanks.");
    await bench.expectLawful("work");
  });

  it("sees images, and takes words into the turn that runs", async () => {
    bench.model.reset();
    const image = { type: "image", path: `data:image/png;base64,${PICTURE}`, mime: "image/png" } as const;
    const seen = await bench.say("work", [
      { type: "text", text: 'What?\n#script [{"say":"A square."}]' },
      image,
    ]);
    expect(seen.end.status).toBe("completed");
    expect(JSON.stringify(bench.model.requests.map(({ body }) => body))).toContain("data:image/");
    const steps = [{ say: "Long." }, { shell: "sleep 1" }, { say: "End." }];
    const steered = await bench.playWhile("work", steps, async ({ after }) => {
      await waitFor(bench.test.log, "work", "item.completed", { after, where: isCall });
      const content = [{ type: "text" as const, text: "Mind the gap." }];
      await bench.test.engine.send("work", { content, via: "test", delivery: "steer" });
    });
    expect(steered.end.status).toBe("completed");
    expect(JSON.stringify(bench.model.requests.map(({ body }) => body))).toContain("Mind the gap.");
    await bench.expectLawful("work");
  });

  it("compacts its context, and says so", async () => {
    const { end, events } = await bench.say("work", [{ type: "text", text: "/compact" }]);
    expect(end.status).toBe("completed");
    expect(ofType(events, "context.compacted")).toHaveLength(1);
    await bench.expectLawful("work");
  });

  it("asks before it acts: once, no, no with words, and for the session", async () => {
    await bench.create("asks");
    const touch = [{ shell: "touch b.txt && rm -f b.txt && echo touched" }, { say: "Touched." }];
    const once = await bench.playWhile("asks", touch, bench.permit("asks", "once"));
    expect(ofType(once.events, "permission.requested")[0]?.data).toMatchObject({
      action: "run_terminal_command",
      metadata: { kind: "execute", input: { command: "touch b.txt && rm -f b.txt && echo touched" } },
    });
    expect(resultsOf(once.events)[0]).toMatchObject({
      status: "completed",
      content: [{ output: "touched\n" }],
    });
    const denied = await bench.playWhile("asks", touch, bench.permit("asks", "reject"));
    expect(denied.end).toMatchObject({ status: "completed", details: { cancelled: "PermissionRejected" } });
    expect(resultsOf(denied.events)[0]).toMatchObject({ status: "failed" });
    const words = `Not that.\n#script ${JSON.stringify([{ say: "As you wish." }])}`;
    const told = await bench.playWhile("asks", touch, bench.permit("asks", "reject", words));
    expect(told.end.status).toBe("completed");
    expect(assistantTexts(told.events)).toEqual(["As you wish."]);
    await bench.playWhile("asks", touch, bench.permit("asks", "always"));
    const again = await bench.play("asks", ...touch);
    expect(ofType(again.events, "permission.requested")).toEqual([]);
    expect(resultsOf(again.events)[0]).toMatchObject({ status: "completed" });
    await bench.expectLawful("asks");
  });

  it("asks questions", async () => {
    const ask = [{ question: { prompt: "Which colour?", options: ["Red", "Blue"] } }, { say: "Thanks." }];
    const { events } = await bench.playWhile("asks", ask, async ({ after }) => {
      const { data } = await waitFor(bench.test.log, "asks", "question.requested", { after });
      expect(data).toMatchObject({ prompt: "Which colour?", options: ["Red", "Blue"] });
      await bench.test.engine.resolveQuestion("asks", data.question_id, { answers: [["Blue"]] });
    });
    expect(resultsOf(events)[0]?.content[0]).toMatchObject({ output: expect.stringContaining("Blue") });
    const rejected = await bench.playWhile("asks", ask, async ({ after }) => {
      const { data } = await waitFor(bench.test.log, "asks", "question.requested", { after });
      await bench.test.engine.resolveQuestion("asks", data.question_id, { rejected: true });
    });
    expect(rejected.end.status).toBe("completed");
    await bench.expectLawful("asks");
  });

  it("stops while it speaks, while it works and while it asks, and goes on after", async () => {
    const interrupt = async (): Promise<unknown> => bench.test.engine.interrupt("asks", { by: "somebody" });
    const speaking = await bench.playWhile(
      "asks",
      [{ say: "One." }, { sleep: 20_000 }],
      async ({ after }) => {
        await waitFor(bench.test.log, "asks", "item.delta", { after });
        await interrupt();
      },
    );
    const working = await bench.playWhile("asks", [{ shell: "sleep 30" }], async ({ after }) => {
      await waitFor(bench.test.log, "asks", "item.started", {
        after,
        where: ({ data }) => data.item.kind === "tool_result",
      });
      await interrupt();
    });
    const asking = await bench.playWhile(
      "asks",
      [{ write: { path: "c.txt", content: "c" } }],
      async ({ after }) => {
        await waitFor(bench.test.log, "asks", "permission.requested", { after });
        await interrupt();
      },
    );
    const ask = { question: { prompt: "Which colour?", options: ["Red", "Blue"] } };
    const questioning = await bench.playWhile("asks", [ask], async ({ after }) => {
      await waitFor(bench.test.log, "asks", "question.requested", { after });
      await interrupt();
    });
    for (const { end } of [speaking, working, asking, questioning]) {
      expect(end).toMatchObject({ status: "interrupted", stop_reason: "interrupted" });
    }
    expect(ofType(asking.events, "permission.resolved")[0]?.data).toMatchObject({ status: "denied" });
    const { events } = await bench.play("asks", { say: "Still here." });
    expect(assistantTexts(events)).toEqual(["Still here."]);
    await bench.expectLawful("asks");
  });

  it("remembers, in another process, after the first was killed", async () => {
    const before = await readAll(bench.test.log, "asks");
    await bench.killAgent("asks", "--no-leader");
    const { events } = await bench.play("asks", { say: "$history" });
    const native = ofType(before, "session.updated")[0]?.data.native_session_id;
    expect(ofType(events, "process.started")[0]?.data).toMatchObject({ process: 2, resumed: native });
    expect(assistantTexts(events)).toHaveLength(1);
    expect(assistantTexts(events)[0]).toContain("Still here.");
    await bench.expectLawful("asks");
  });

  it("goes on when the engine lets go in mid-turn, and is read to the end by the next one", async () => {
    const steps = [{ say: "Before." }, { sleep: 1500 }, { say: "After." }];
    const { end, events } = await bench.playWhile("asks", steps, async ({ after }) => {
      await waitFor(bench.test.log, "asks", "item.delta", { after });
      await bench.test.restart();
    });
    expect(end.status).toBe("completed");
    expect(assistantTexts(events).join("")).toBe("Before.After.");
    expect(ofType(events, "process.started")).toEqual([]);
    await bench.expectLawful("asks");
  });

  it("tries again when the model fails, says so, and tells failures apart", async () => {
    await bench.create("fails", { retries: { tries: 3, backoffMs: 10 } });
    for (const kind of ["server_error", "cut"]) {
      const { end, events } = await bench.play(
        "fails",
        { fail: { kind, times: 1 } },
        { say: `After ${kind}.` },
      );
      expect(end, kind).toMatchObject({ status: "completed" });
      expect(ofType(events, "turn.retrying")[0]?.data, kind).toMatchObject({
        attempt: 1,
        error: { retryable: true },
      });
      expect(ofType(events, "turn.resumed"), kind).toHaveLength(1);
      expect(assistantTexts(events), kind).toEqual([`After ${kind}.`]);
    }
    const end = async (kind: string) => (await bench.play("fails", { fail: { kind, times: 20 } })).end;
    expect(await end("terminal")).toMatchObject({
      status: "failed",
      stop_reason: "end_turn",
      error: { code: "invalid_request" },
    });
    expect(await end("context_length")).toMatchObject({
      status: "failed",
      error: { code: "context_length" },
    });
    const refused = await bench.play("fails", { refuse: "I will not." });
    expect(refused.end).toMatchObject({ status: "completed", stop_reason: "refusal" });
    await bench.expectLawful("fails");
    expect(await end("unauthorized")).toMatchObject({
      stop_reason: "model_error",
      error: { code: "unauthorized" },
    });
    await waitFor(bench.test.log, "fails", "session.ended");
  });

  it("reads the session's instructions, skills, MCP servers and effort, and a plan to approve", async () => {
    const args = [join(import.meta.dirname, "../fixtures/sums-mcp.mjs")];
    bench.model.reset();
    await bench.create("given", {
      permissionMode: "plan",
      variant: "low",
      instructions: "Mind the marmalade.",
      skills: [{ name: "toast", description: "How to make toast", content: "Toast it." }],
      mcp: { tiny: { command: process.execPath, args } },
    });
    const plan = { custom: { name: "exit_plan_mode", input: {} } };
    const approved = await bench.playWhile("given", [plan, { say: "Off I go." }], async ({ after }) => {
      const { data } = await waitFor(bench.test.log, "given", "permission.requested", { after });
      expect(data).toMatchObject({ action: "exit_plan_mode", metadata: { kind: "plan" } });
      await bench.test.engine.resolvePermission("given", data.permission_id, { reply: "once" });
    });
    expect(assistantTexts(approved.events)).toContain("Off I go.");
    const sent = JSON.stringify(bench.model.requests.map(({ body }) => body));
    expect(sent).toContain("Mind the marmalade.");
    expect(sent).toContain("How to make toast");
    expect(sent).toContain('"reasoning_effort":"low"');
    const add = { mcp: { server: "tiny", tool: "add", input: { a: 2, b: 40 } } };
    const added = await bench.playWhile("given", [add, { say: "Added." }], bench.permit("given", "once"));
    expect(ofType(added.events, "permission.requested")[0]?.data).toMatchObject({
      action: "mcp__tiny__add",
      metadata: { kind: "mcp", input: { a: 2, b: 40 } },
    });
    expect(resultsOf(added.events).at(-1)).toMatchObject({
      status: "completed",
      content: [{ output: "42" }],
    });
    await bench.expectLawful("given");
  });
});
