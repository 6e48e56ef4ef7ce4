import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ofType, readAll, runTurn, say, script, type TestEngine, waitFor } from "../../support/engine.ts";
import { assistantTexts, expectLawful } from "../../support/laws.ts";
import { type AmpBench, openAmp } from "./amp-bench.ts";

describe("the life of Amp's process, by a stub", () => {
  let bench: AmpBench;
  let test: TestEngine;

  beforeAll(async () => {
    bench = await openAmp();
    test = bench.test;
  });
  afterAll(() => bench.close());

  it("is interrupted in a tool, and goes on in another process with the thread", async () => {
    await bench.create("stop", { permissionMode: "bypass" });
    await runTurn(test, "stop", "first words");
    const { turnId, after } = await say(test.engine, "stop", script({ shell: "sleep 60" }));
    await waitFor(test.log, "stop", "item.completed", {
      after,
      where: ({ data }) => data.item.kind === "tool_call",
    });
    await test.engine.interrupt("stop");
    const end = await waitFor(test.log, "stop", "turn.ended", {
      after,
      where: ({ data }) => data.turn_id === turnId,
    });
    expect(end.data).toMatchObject({ status: "interrupted", stop_reason: "interrupted" });

    await runTurn(test, "stop", script({ say: "$history" }));
    const events = await readAll(test.log, "stop");
    expectLawful(events);
    expect(assistantTexts(events).at(-1)).toContain("first words|#script");
    expect(ofType(events, "process.started").map(({ data }) => data.resumed !== undefined)).toEqual([
      false,
      true,
    ]);
    expect(new Set(ofType(events, "session.updated").map(({ data }) => data.native_session_id)).size).toBe(1);
  });

  it("is interrupted while it asks: the question is closed with the turn", async () => {
    await bench.create("stopped-asking");
    const { after } = await say(test.engine, "stopped-asking", script({ shell: "echo never" }));
    await waitFor(test.log, "stopped-asking", "permission.requested", { after });
    await test.engine.interrupt("stopped-asking");
    const end = await waitFor(test.log, "stopped-asking", "turn.ended", { after });
    expect(end.data.status).toBe("interrupted");
    const events = await readAll(test.log, "stopped-asking");
    expect(ofType(events, "permission.resolved")).toMatchObject([{ data: { status: "denied" } }]);
    expectLawful(events);
  });

  it.each(["each", "end"])("has one end per turn, whether a result comes with %s", async (STUB_RESULT) => {
    const id = `result-${STUB_RESULT}`;
    await bench.create(id, { env: { STUB_RESULT } });
    for (const words of ["one", "two", "three"]) await runTurn(test, id, words);
    const events = await readAll(test.log, id);
    expect(ofType(events, "turn.ended").map(({ data }) => data.status)).toEqual([
      "completed",
      "completed",
      "completed",
    ]);
    expect(assistantTexts(events)).toEqual(["You said: one", "You said: two", "You said: three"]);
    expect(ofType(events, "process.started")).toHaveLength(1);
    expect(events.filter(({ type }) => type === "agent.unparsed")).toEqual([]);
  });

  it("ends the session when there is no key, with nothing of the login page in the log", async () => {
    await test.engine.create("keyless", { agent: "amp" });
    const end = await runTurn(test, "keyless", "hi");
    expect(end.data).toMatchObject({
      status: "failed",
      stop_reason: "model_error",
      error: { code: "unauthorized" },
    });
    await waitFor(test.log, "keyless", "session.ended");
    expect(JSON.stringify(await readAll(test.log, "keyless", true))).not.toContain("authToken");
  });

  it("goes on while the server is away, and the next server reads it to its end", async () => {
    await bench.create("lives", { permissionMode: "bypass" });
    const { turnId, after } = await say(
      test.engine,
      "lives",
      script({ shell: "sleep 1; echo slept" }, { say: "Awake." }),
    );
    await waitFor(test.log, "lives", "item.completed", {
      after,
      where: ({ data }) => data.item.kind === "tool_call",
    });
    await test.restart();
    const end = await waitFor(test.log, "lives", "turn.ended", {
      after,
      where: ({ data }) => data.turn_id === turnId,
    });
    expect(end.data.status).toBe("completed");
    expectLawful(await readAll(test.log, "lives"));
  });

  it("takes a message into the running turn", async () => {
    await bench.create("steered", { permissionMode: "bypass" });
    const { turnId, after } = await say(
      test.engine,
      "steered",
      // The file exists before the message arrives.
      script({ shell: "until [ -e go ]; do sleep 0.05; done; sleep 1" }, { say: "One." }),
    );
    await waitFor(test.log, "steered", "item.completed", {
      after,
      where: ({ data }) => data.item.kind === "tool_call",
    });
    const content = [{ type: "text" as const, text: "hurry" }];
    expect(await test.engine.send("steered", { content, via: "test", delivery: "steer" })).toMatchObject({
      turnId,
    });
    await (await test.engine.files("steered")).write("go", "");
    await waitFor(test.log, "steered", "turn.ended", { after });
    const events = await readAll(test.log, "steered");
    expect(assistantTexts(events)).toEqual(["One. Steered: hurry"]);
    expect(ofType(events, "turn.ended")).toHaveLength(1);
    expectLawful(events);
  });

  it("ends the session when Amp dies in mid-turn, with its exit code", async () => {
    await bench.create("dies", { permissionMode: "bypass" });
    await runTurn(test, "dies", "first");
    const end = await runTurn(test, "dies", script({ exit: 7 }));
    expect(end.data).toMatchObject({ status: "failed", stop_reason: "agent_exited" });
    const ended = await waitFor(test.log, "dies", "session.ended");
    expect(ended.data).toMatchObject({ reason: "error", exit_code: 7 });
  });

  it("leaves no process behind", () => {
    expect(bench.processes()).toEqual([]);
  });
});
