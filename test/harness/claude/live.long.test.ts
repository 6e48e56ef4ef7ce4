import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ofType, readAll, waitFor } from "../../support/engine.ts";
import { assistantTexts } from "../../support/laws.ts";
import type { AgentBench, Played, Reply } from "../agent-bench.ts";
import { CLAUDE, CLAUDE_KEY, describeLive } from "../live-agents.ts";
import { DOT } from "../pictures.ts";
import { isCall, resultsOf } from "../told.ts";

describeLive(CLAUDE, 60_000, () => {
  let bench: AgentBench;

  beforeAll(async () => {
    bench = await CLAUDE.open();
  });
  afterAll(() => bench.close());

  it("is found, with its version", async () => {
    const [agent] = await bench.test.engine.agents();
    expect(agent).toMatchObject({ id: "claude", installed: true });
  });

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
    expect(end.usage?.cost_usd).toBeGreaterThan(0);
    expect(assistantTexts(events)).toEqual(["I begin.", "I am done."]);
    expect(JSON.stringify(events)).toContain('"type":"reasoning","text":"A plan forms."');
    const results = resultsOf(events);
    expect(results[0]).toMatchObject({ status: "completed", content: [{ output: "one" }] });
    expect(results[1]).toMatchObject({
      status: "failed",
      content: [{}, { type: "json", json: { exit_code: 3 } }],
    });
    const files = results.flatMap((item) => item.content.filter((part) => part.type === "file_ref"));
    expect(files.map(({ action }) => action)).toEqual(["write", "read", "patch"]);
    expect(files[2]?.diff).toContain("-y\n+z\n");
    await bench.expectLawful("work");
  });

  it("keeps the key out of the agent's commands, and out of the log", async () => {
    await bench.play("work", { shell: "env; cat /proc/$PPID/environ /proc/$PPID/cmdline" });
    expect(JSON.stringify(await readAll(bench.test.log, "work", true))).not.toContain(CLAUDE_KEY);
  });

  it("tells plans and sub-agents, those in the background within the turn that started them", async () => {
    const entries = [
      { content: "One", status: "completed", priority: "medium" },
      { content: "Two", status: "in_progress", priority: "medium" },
    ];
    const planned = await bench.play("work", { plan: entries });
    expect(ofType(planned.events, "plan.updated").at(-1)?.data.entries).toEqual(entries);
    const steps = [{ say: "I help." }, { shell: "echo nested" }, { say: "The helper's word." }];
    const near = await bench.play("work", { subagent: { name: "helper", steps } }, { say: "Thanks." });
    expectSubagent(near, "The helper's word.");
    const prompt = `#script ${JSON.stringify([{ shell: "sleep 0.5; echo nested" }, { say: "Back again." }])}`;
    const input = { description: "far", prompt, subagent_type: "general-purpose", run_in_background: true };
    const far = await bench.play("work", { custom: { name: "Agent", input } }, { say: "Meanwhile." });
    expectSubagent(far, "Back again.");
    await bench.expectLawful("work");
  });

  it("sees images, and takes words into the turn that runs", async () => {
    const image = { type: "image", path: `data:image/png;base64,${DOT}`, mime: "image/png" } as const;
    bench.model.reset();
    const seen = await bench.say("work", [
      { type: "text", text: 'What is this? #script [{"say":"A dot."}]' },
      image,
    ]);
    expect(seen.end.status).toBe("completed");
    expect(JSON.stringify(bench.model.requests.map(({ body }) => body))).toContain(DOT);
    const steered = await bench.playWhile(
      "work",
      [{ say: "Long." }, { sleep: 400 }, { say: "End." }],
      async ({ after }) => {
        await waitFor(bench.test.log, "work", "item.delta", { after });
        const content = [{ type: "text" as const, text: '#script [{"say":"Steered."}]' }];
        await bench.test.engine.send("work", { content, via: "test", delivery: "steer" });
      },
    );
    expect(assistantTexts(steered.events)).toEqual(["Long.", "End.", "Steered."]);
    await bench.expectLawful("work");
  });

  it("compacts its context, and says so", async () => {
    const { end, events } = await bench.say("work", [{ type: "text", text: "/compact" }]);
    expect(end.status).toBe("completed");
    expect(ofType(events, "context.compacted")[0]?.data).toMatchObject({ trigger: "manual" });
  });

  it("asks before it acts: once, for the session, and no", async () => {
    await bench.create("asks");
    const permit = (reply: Reply, message?: string) => bench.permit("asks", reply, message);
    const touch = [{ shell: "touch b.txt && echo touched" }];
    const once = await bench.playWhile("asks", touch, permit("once"));
    expect(ofType(once.events, "permission.requested")[0]?.data).toMatchObject({
      action: "Bash",
      metadata: { kind: "execute", input: { command: "touch b.txt && echo touched" } },
    });
    expect(resultsOf(once.events)[0]).toMatchObject({
      status: "completed",
      content: [{ output: "touched" }],
    });
    const denied = await bench.playWhile("asks", touch, permit("reject", "Not that file."));
    expect(denied.end.status).toBe("completed");
    expect(resultsOf(denied.events)[0]).toMatchObject({
      status: "failed",
      content: [{ output: "Not that file." }],
    });
    await bench.playWhile("asks", touch, permit("always"));
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
    expect(resultsOf(rejected.events)[0]).toMatchObject({ status: "failed" });
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
    const working = await bench.playWhile("asks", [{ shell: "sleep 9" }], async ({ after }) => {
      await waitFor(bench.test.log, "asks", "item.completed", { after, where: isCall });
      await interrupt();
    });
    const asking = await bench.playWhile("asks", [{ shell: "node -e 1" }], async ({ after }) => {
      await waitFor(bench.test.log, "asks", "permission.requested", { after });
      await interrupt();
    });
    for (const { end } of [speaking, working, asking]) expect(end).toMatchObject({ status: "interrupted" });
    expect(ofType(asking.events, "permission.resolved")[0]?.data).toMatchObject({ status: "denied" });
    const { events } = await bench.play("asks", { say: "Still here." });
    expect(assistantTexts(events)).toEqual(["Still here."]);
    await bench.expectLawful("asks");
  });

  it("remembers, in another process, after the first was killed", async () => {
    const before = await readAll(bench.test.log, "asks");
    await bench.killAgent("asks", "stream-json");
    const { events } = await bench.play("asks", { say: "$history" });
    const native = ofType(before, "session.updated")[0]?.data.native_session_id;
    expect(ofType(events, "process.started")[0]?.data).toMatchObject({ process: 2, resumed: native });
    expect(assistantTexts(events)[0]).toContain("Still here.");
    await bench.expectLawful("asks");
  });

  it("goes on when the engine lets go in mid-turn, and is read to the end by the next one", async () => {
    const { end, events } = await bench.playWhile(
      "asks",
      [{ say: "Before." }, { sleep: 1500 }, { say: "After." }],
      async ({ after }) => {
        await waitFor(bench.test.log, "asks", "item.delta", { after });
        await bench.test.restart();
      },
    );
    expect(end.status).toBe("completed");
    expect(assistantTexts(events)).toEqual(["Before.", "After."]);
    expect(ofType(events, "process.started")).toEqual([]);
    await bench.expectLawful("asks");
  });

  it("tries again when the model fails, within its budget, and tells failures apart", async () => {
    await bench.create("fails", { retries: { tries: 2, backoffMs: 10 } });
    for (const [kind, code] of [
      ["overloaded", "overloaded"],
      ["rate_limited", "rate_limited"],
      ["server_error", "server_error"],
      ["cut", "network"],
    ]) {
      const { end, events } = await bench.play(
        "fails",
        { fail: { kind, times: 1 } },
        { say: `After ${kind}.` },
      );
      expect(end, kind).toMatchObject({ status: "completed" });
      expect(ofType(events, "turn.retrying")[0]?.data, kind).toMatchObject({
        attempt: 1,
        max_attempts: 1,
        error: { code },
      });
      expect(ofType(events, "turn.resumed"), kind).toHaveLength(1);
      expect(assistantTexts(events), kind).toEqual([`After ${kind}.`]);
    }
    const end = async (kind: string) => (await bench.play("fails", { fail: { kind, times: 9 } })).end;
    expect(await end("overloaded")).toMatchObject({
      stop_reason: "retries_exhausted",
      error: { code: "overloaded" },
    });
    expect(await end("terminal")).toMatchObject({
      status: "failed",
      stop_reason: "end_turn",
      error: { code: "invalid_request" },
    });
    expect(await end("context_length")).toMatchObject({
      status: "failed",
      error: { code: "context_length" },
    });
    expect(await end("garbage")).toMatchObject({ status: "failed", error: { code: "network" } });
    const refused = await bench.play("fails", { refuse: "I will not." });
    expect(refused.end).toMatchObject({ status: "completed", stop_reason: "refusal" });
    await bench.expectLawful("fails");
    expect(await end("unauthorized")).toMatchObject({
      stop_reason: "model_error",
      error: { code: "unauthorized" },
    });
    await waitFor(bench.test.log, "fails", "session.ended");
  });

  it("reads the session's prompts, skills and MCP servers, and a plan to approve", async () => {
    const server = {
      command: process.execPath,
      args: [join(import.meta.dirname, "../fixtures/sums-mcp.mjs")],
    };
    bench.model.reset();
    await bench.create("given", {
      permissionMode: "plan",
      variant: "low",
      instructions: "Mind the marmalade.",
      skills: [{ name: "toast", description: "How to make toast", content: "Toast it." }],
      mcp: { tiny: server },
    });
    const plan = { custom: { name: "ExitPlanMode", input: { plan: "First this, then that." } } };
    const approved = await bench.playWhile("given", [plan, { say: "Off I go." }], async ({ after }) => {
      const { data } = await waitFor(bench.test.log, "given", "question.requested", { after });
      expect(data).toMatchObject({ prompt: "First this, then that." });
      await bench.test.engine.resolveQuestion("given", data.question_id, { answers: [["approve"]] });
    });
    expect(assistantTexts(approved.events)).toContain("Off I go.");
    const sent = JSON.stringify(bench.model.requests.map(({ body }) => body));
    expect(sent).toContain("Mind the marmalade.");
    expect(sent).toContain("How to make toast");
    const add = { mcp: { server: "tiny", tool: "add", input: { a: 2, b: 40 } } };
    const added = await bench.playWhile("given", [add], async ({ after }) => {
      const { data } = await waitFor(bench.test.log, "given", "permission.requested", { after });
      expect(data).toMatchObject({ action: "mcp__tiny__add", metadata: { kind: "mcp" } });
      await bench.test.engine.resolvePermission("given", data.permission_id, { reply: "once" });
    });
    expect(resultsOf(added.events).at(-1)).toMatchObject({ content: [{ output: "42" }] });
    await bench.expectLawful("given");
  });

  it("speaks with the system prompt that it is given", async () => {
    bench.model.reset();
    await bench.create("prompted", { systemPrompt: "You are a teapot." });
    await bench.play("prompted", { say: "Short and stout." });
    expect(JSON.stringify(bench.model.requests[0]?.body)).toContain("You are a teapot.");
  });
});

/** Expects the sub-agent's items under its call and before the turn's end, and its last text as the call's result. */
function expectSubagent({ end, events }: Played, word: string): void {
  expect(end.status).toBe("completed");
  const call = ofType(events, "item.completed").find(({ data }) =>
    JSON.stringify(data).includes('"name":"Agent"'),
  );
  const id = call?.data.item.item_id;
  const nested = ofType(events, "item.completed").filter((event) => event.parent_id === id);
  expect(assistantTexts(nested).at(-1)).toBe(word);
  expect(resultsOf(nested)[0]?.content[0]).toMatchObject({ output: "nested" });
  const result = resultsOf(events).find((item) => item.parent_id === id);
  expect(result).toMatchObject({ status: "completed", content: [{ output: expect.stringContaining(word) }] });
}
