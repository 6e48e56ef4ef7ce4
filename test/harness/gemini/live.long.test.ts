import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ofType, readAll, waitFor } from "../../support/engine.ts";
import { assistantTexts } from "../../support/laws.ts";
import type { AgentBench } from "../agent-bench.ts";
import { describeLive, GEMINI } from "../live-agents.ts";
import { PICTURE } from "../pictures.ts";
import { callsOf, resultsOf } from "../told.ts";

describeLive(GEMINI, 60_000, () => {
  let bench: AgentBench;

  beforeAll(async () => {
    bench = await GEMINI.open();
  });
  afterAll(() => bench.close());

  it("thinks, speaks, runs commands, writes and edits, and counts the usage of each request", async () => {
    await bench.create("work", { permissionMode: "bypass" });
    const { end, events } = await bench.play(
      "work",
      { think: "A plan forms." },
      { say: "I begin.", chunks: 3 },
      { parallel: [{ shell: "echo one" }, { shell: "echo two >&2; exit 3" }] },
      { write: { path: "a.txt", content: "x\ny\n" } },
      { read: "a.txt" },
      { edit: { path: "a.txt", old: "y", new: "z" } },
      { custom: { name: "no_such_tool", input: { a: 1 } } },
      { say: "I am done." },
    );
    expect(end).toMatchObject({ status: "completed", stop_reason: "end_turn" });
    expect(ofType(events, "model.ended").every(({ data }) => (data.usage?.input_tokens ?? 0) > 0)).toBe(true);
    expect(assistantTexts(events)).toEqual(["I begin.", "I am done."]);
    expect(JSON.stringify(events)).toContain('"type":"reasoning","text":"A plan forms."');
    const results = resultsOf(events);
    expect(results[0]).toMatchObject({ status: "completed", content: [{ output: "one" }] });
    expect(results[1]).toMatchObject({
      status: "failed",
      content: [{ output: "two" }, { type: "json", json: { exit_code: 3 } }],
    });
    expect(callsOf(events)[0]).toMatchObject({ name: "run_shell_command", input: { command: "echo one" } });
    expect(callsOf(events).at(-1)).toEqual({ name: "no_such_tool", input: { a: 1 } });
    expect(results.at(-1)).toMatchObject({ status: "failed" });
    const files = results.flatMap((item) => item.content.filter((part) => part.type === "file_ref"));
    expect(files.map(({ action }) => action)).toEqual(["write", "read", "patch"]);
    expect(files[2]?.diff).toContain("-y\n+z\n");
    await bench.expectLawful("work");
  });

  it("tells plans, and sub-agents under the call that started them", async () => {
    const entries = [
      { content: "One", status: "completed", priority: "medium" },
      { content: "Two", status: "in_progress", priority: "medium" },
    ];
    const planned = await bench.play("work", { plan: entries });
    expect(ofType(planned.events, "plan.updated").at(-1)?.data.entries).toEqual(entries);
    const steps = [{ say: "I help." }, { shell: "echo nested" }, { say: "The helper's word." }];
    const helped = await bench.play("work", { subagent: { name: "helper", steps } }, { say: "Thanks." });
    const nested = helped.events.filter((event) => event.parent_id !== undefined);
    expect(assistantTexts(nested)).toContain("I help.");
    expect(callsOf(nested)[0]).toMatchObject({
      name: "run_shell_command",
      input: { command: "echo nested" },
    });
    expect(resultsOf(nested)[0]?.content[0]).toMatchObject({ output: "nested" });
    expect(JSON.stringify(resultsOf(helped.events).at(-1))).toContain("The helper's word.");
    expect(assistantTexts(helped.events)).toContain("Thanks.");
    await bench.expectLawful("work");
  });

  it("sees images", async () => {
    bench.model.reset();
    const image = { type: "image", path: `data:image/png;base64,${PICTURE}`, mime: "image/png" } as const;
    const seen = await bench.say("work", [
      { type: "text", text: 'What?\n#script [{"say":"A square."}]' },
      image,
    ]);
    expect(seen.end.status).toBe("completed");
    expect(JSON.stringify(bench.model.requests.map(({ body }) => body))).toContain(PICTURE);
  });

  it("asks before it acts: once, no, no with words, and for the session", async () => {
    await bench.create("asks");
    const touch = [{ shell: "touch b.txt && rm b.txt && echo touched" }, { say: "Touched." }];
    const once = await bench.playWhile("asks", touch, bench.permit("asks", "once"));
    expect(ofType(once.events, "permission.requested")[0]?.data).toMatchObject({
      action: "run_shell_command",
      metadata: { kind: "execute", input: { command: "touch b.txt && rm b.txt && echo touched" } },
    });
    expect(resultsOf(once.events)[0]).toMatchObject({
      status: "completed",
      content: [{ output: "touched" }],
    });
    const denied = await bench.playWhile("asks", touch, bench.permit("asks", "reject"));
    expect(denied.end.status).toBe("completed");
    expect(resultsOf(denied.events)[0]).toMatchObject({ status: "failed" });
    const words = `Not that.\n#script ${JSON.stringify([{ say: "As you wish." }])}`;
    const told = await bench.playWhile("asks", touch, bench.permit("asks", "reject", words));
    expect(told.end.status).toBe("completed");
    expect(assistantTexts(told.events).at(-1)).toBe("As you wish.");
    await bench.playWhile("asks", touch, bench.permit("asks", "always"));
    const again = await bench.play("asks", ...touch);
    expect(ofType(again.events, "permission.requested")).toEqual([]);
    expect(resultsOf(again.events)[0]).toMatchObject({ status: "completed" });
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
    const asking = await bench.playWhile(
      "asks",
      [{ write: { path: "c.txt", content: "c" } }],
      async ({ after }) => {
        await waitFor(bench.test.log, "asks", "permission.requested", { after });
        await interrupt();
      },
    );
    const working = await bench.playWhile("work", [{ shell: "sleep 30" }], async ({ after }) => {
      await waitFor(bench.test.log, "work", "item.started", {
        after,
        where: ({ data }) => data.item.kind === "tool_result",
      });
      await bench.test.engine.interrupt("work");
    });
    for (const { end } of [speaking, working, asking]) {
      expect(end).toMatchObject({ status: "interrupted", stop_reason: "interrupted" });
    }
    expect(ofType(asking.events, "permission.resolved")[0]?.data).toMatchObject({ status: "denied" });
    const { events } = await bench.play("asks", { say: "Still here." });
    expect(assistantTexts(events)).toEqual(["Still here."]);
    await bench.expectLawful("asks");
    await bench.expectLawful("work");
  });

  it("remembers, in another process, each time that it was killed within the minute of its birth", async () => {
    await bench.create("killed");
    await bench.play("killed", { say: "Still here." });
    const first = await readAll(bench.test.log, "killed");
    const native = ofType(first, "session.updated")[0]?.data.native_session_id;
    for (const process of [2, 3]) {
      await bench.killAgent("killed", "--acp");
      const { events } = await bench.play("killed", { say: "$history" });
      expect(ofType(events, "process.started")[0]?.data).toMatchObject({ process, resumed: native });
      expect(assistantTexts(events)).toHaveLength(1);
      expect(assistantTexts(events)[0]).toContain("Still here.");
    }
    await bench.expectLawful("killed");
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
    const { end: mended, events } = await bench.play(
      "fails",
      { fail: { kind: "server_error", times: 1 } },
      { say: "After." },
    );
    expect(mended).toMatchObject({ status: "completed" });
    expect(ofType(events, "turn.retrying")[0]?.data).toMatchObject({
      attempt: 1,
      error: { code: "server_error" },
    });
    expect(ofType(events, "turn.resumed")).toHaveLength(1);
    expect(assistantTexts(events)).toEqual(["After."]);
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
    expect(await end("cut")).toMatchObject({
      stop_reason: "retries_exhausted",
      error: { code: "network" },
    });
    await bench.expectLawful("fails");
    expect(await end("unauthorized")).toMatchObject({
      stop_reason: "model_error",
      error: { code: "unauthorized" },
    });
    await waitFor(bench.test.log, "fails", "session.ended");
  });

  it("reads the session's prompts, instructions, skills and MCP servers with numeric results", async () => {
    const args = [join(import.meta.dirname, "../fixtures/sums-mcp.mjs")];
    bench.model.reset();
    await bench.create("given", {
      variant: "low",
      instructions: "Mind the marmalade.",
      skills: [{ name: "toast", description: "How to make toast", content: "Toast it." }],
      mcp: { tiny: { command: process.execPath, args } },
    });
    const add = { mcp: { server: "tiny", tool: "add", input: { a: 2, b: 40 } } };
    const added = await bench.playWhile("given", [add, { say: "Added." }], bench.permit("given", "once"));
    expect(ofType(added.events, "permission.requested")[0]?.data).toMatchObject({
      action: "mcp__tiny__add",
      metadata: { kind: "mcp", input: { a: 2, b: 40 } },
    });
    expect(resultsOf(added.events)[0]).toMatchObject({ status: "completed", content: [{ output: "42" }] });
    const sent = JSON.stringify(bench.model.requests.map(({ body }) => body));
    expect(sent).toContain("Mind the marmalade.");
    expect(sent).toContain("How to make toast");
    expect(sent).toContain('"thinkingBudget":1024');
    bench.model.reset();
    await bench.create("prompted", { permissionMode: "plan", systemPrompt: "You are a teapot." });
    await bench.play("prompted", { say: "Short and stout." });
    const [prompted] = bench.model.requests.map(({ body }) => JSON.stringify(body));
    expect(prompted).toContain("You are a teapot.");
    expect(prompted).toContain('"exit_plan_mode"');
    await bench.expectLawful("given");
  });
});
