import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { assistantTexts, expectLawful } from "../support/laws.ts";
import {
  ofType,
  openEngine,
  readAll,
  say,
  script,
  SCRIPTED,
  waitFor,
  type TestEngine,
} from "../support/engine.ts";

describe("actions", () => {
  let test: TestEngine;
  beforeEach(async () => {
    test = await openEngine();
    await test.engine.create("s", SCRIPTED);
  });
  afterEach(() => test.close());

  it("does not run a tool before it is allowed, and does then", async () => {
    await say(test.engine, "s", script({ ask: { shell: "echo ran" } }));
    const waiting = await waitFor(test.log, "s", "turn.waiting");
    const info = await test.engine.info("s");
    expect(info.status).toBe("waiting");
    expect(info.pendingActions).toMatchObject([{ kind: "permission", id: waiting.data.actions[0]?.id }]);
    expect(JSON.stringify(await readAll(test.log, "s"))).not.toContain('"output":"ran');
    await test.engine.resolvePermission("s", info.pendingActions[0]?.id ?? "", { reply: "once", by: "ann" });
    await waitFor(test.log, "s", "turn.ended");
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(ofType(events, "permission.resolved")[0]?.data).toMatchObject({
      status: "approved",
      metadata: { by: "ann" },
    });
    expect(ofType(events, "turn.resumed")).toHaveLength(1);
    expect(JSON.stringify(events)).toContain('"output":"ran');
  });

  it("tells the agent the reason of a rejection", async () => {
    await say(test.engine, "s", script({ ask: { shell: "echo ran" } }));
    const { data } = await waitFor(test.log, "s", "permission.requested");
    await test.engine.resolvePermission("s", data.permission_id, {
      reply: "reject",
      message: "not on a Sunday",
    });
    await waitFor(test.log, "s", "turn.ended");
    const events = await readAll(test.log, "s");
    expectLawful(events);
    const result = ofType(events, "item.completed").find((event) => event.data.item.kind === "tool_result");
    expect(result?.data.item.status).toBe("failed");
    expect(JSON.stringify(result)).toContain("not on a Sunday");
  });

  it("lets the first answer win, and names it to the second", async () => {
    await say(test.engine, "s", script({ ask: { shell: "true" } }));
    const { data } = await waitFor(test.log, "s", "permission.requested");
    const answers = await Promise.allSettled(
      ["ann", "bob"].map((by) =>
        test.engine.resolvePermission("s", data.permission_id, { reply: "once", by }),
      ),
    );
    expect(answers.map((answer) => answer.status).toSorted()).toEqual(["fulfilled", "rejected"]);
    const refusal = answers.find((answer) => answer.status === "rejected");
    expect(refusal?.reason).toMatchObject({
      code: "already_resolved",
      facts: { resolution: "approved", by: "ann" },
    });
    await expect(test.engine.resolvePermission("s", "perm_none", { reply: "once" })).rejects.toMatchObject({
      code: "action_not_found",
    });
    await waitFor(test.log, "s", "turn.ended");
  });

  it("passes a question's answer on", async () => {
    await say(test.engine, "s", script({ question: { prompt: "Which?", options: ["left", "right"] } }));
    const { data } = await waitFor(test.log, "s", "question.requested");
    expect(data).toMatchObject({ prompt: "Which?", options: ["left", "right"], status: "requested" });
    await test.engine.resolveQuestion("s", data.question_id, { answers: [["right"]] });
    await waitFor(test.log, "s", "turn.ended");
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(ofType(events, "question.resolved")[0]?.data).toMatchObject({
      status: "answered",
      response: "right",
    });
    expect(assistantTexts(events).join(" ")).toContain("right");
  });

  it("lets the application run a tool", async () => {
    await say(test.engine, "s", script({ custom: { name: "weather", input: { city: "Bern" } } }));
    const { data } = await waitFor(test.log, "s", "tool.requested");
    expect(data).toMatchObject({ name: "weather", input: { city: "Bern" } });
    await test.engine.resolveTool("s", data.request_id, { output: "sunny in Bern" });
    await waitFor(test.log, "s", "turn.ended");
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(assistantTexts(events).join(" ")).toContain("sunny in Bern");
  });

  it("waits for several requests, with a new turn.waiting for each", async () => {
    await say(
      test.engine,
      "s",
      script({ parallel: [{ ask: { shell: "echo a" } }, { ask: { write: { path: "b", content: "b" } } }] }),
    );
    const both = await waitFor(test.log, "s", "turn.waiting", {
      where: (event) => event.data.actions.length === 2,
    });
    const [first, second] = both.data.actions;
    await test.engine.resolvePermission("s", first?.id ?? "", { reply: "once" });
    expect((await test.engine.info("s")).pendingActions.map((action) => action.id)).toEqual([second?.id]);
    await test.engine.resolvePermission("s", second?.id ?? "", { reply: "once" });
    await waitFor(test.log, "s", "turn.ended");
    expectLawful(await readAll(test.log, "s"));
  });

  it("waits for a sub-agent's request too", async () => {
    await say(
      test.engine,
      "s",
      script({ subagent: { name: "sub", steps: [{ ask: { shell: "echo deep" } }, { say: "nested" }] } }),
    );
    const waiting = await waitFor(test.log, "s", "turn.waiting");
    await test.engine.resolvePermission("s", waiting.data.actions[0]?.id ?? "", { reply: "once" });
    await waitFor(test.log, "s", "turn.ended");
    const events = await readAll(test.log, "s");
    expectLawful(events);
    const parents = new Set(
      events.flatMap((event) => (event.parent_id === undefined ? [] : [event.parent_id])),
    );
    const call = ofType(events, "item.started").find((event) => event.data.item.kind === "tool_call");
    expect(parents).toEqual(new Set([call?.data.item.item_id]));
  });

  it("answers by policy where the session says so", async () => {
    await test.engine.create("free", { ...SCRIPTED, permissionMode: "bypass" });
    await say(test.engine, "free", script({ ask: { shell: "echo ran" } }));
    await waitFor(test.log, "free", "turn.ended");
    const events = await readAll(test.log, "free");
    expectLawful(events);
    expect(ofType(events, "permission.resolved")[0]?.data.metadata).toMatchObject({ by: "policy:bypass" });
    expect(ofType(events, "turn.waiting")).toEqual([]);
  });

  it("keeps a pending permission through a restart, answerable", async () => {
    await say(test.engine, "s", script({ ask: { shell: "echo ran" } }, { say: "done" }));
    const { data } = await waitFor(test.log, "s", "permission.requested");
    await test.restart();
    expect((await test.engine.info("s")).pendingActions).toMatchObject([{ id: data.permission_id }]);
    await test.engine.resolvePermission("s", data.permission_id, { reply: "once" });
    await waitFor(test.log, "s", "turn.ended");
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(assistantTexts(events)).toEqual(["done"]);
  });
});
