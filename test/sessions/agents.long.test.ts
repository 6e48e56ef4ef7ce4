import { afterEach, describe, expect, it } from "vitest";
import type { SessionSpec } from "../../src/contract/index.ts";
import type { Limits } from "../../src/sessions/deps.ts";
import {
  ofType,
  openEngine,
  readAll,
  runTurn,
  say,
  script,
  type TestEngine,
  waitFor,
} from "../support/engine.ts";
import { assistantTexts, expectLawful, expectTurnsEnd } from "../support/laws.ts";
import { END, factAgent, GREETED, sayVariable, STOPPED, tell } from "./fact-agent.ts";

let test: TestEngine;
afterEach(() => test.close());

const open = async (
  program: string,
  options: { spec?: Partial<SessionSpec>; limits?: Partial<Limits> } = {},
): Promise<void> => {
  test = await openEngine({ harnesses: [factAgent(program)], limits: { gentleMs: 100, ...options.limits } });
  await test.engine.create("s", { agent: "facts", sandbox: "local", ...options.spec });
};

const lines = (...parts: string[]): string => parts.join("\n");

describe("an agent with a handshake", () => {
  it("is greeted first, and told the prompt once it is ready", async () => {
    const program = lines(
      "read -r hello; sleep 0.3; echo ready",
      "while read -r prompt; do",
      sayVariable("prompt", "a"),
      tell(END),
      "done",
    );
    await open(program);
    expect((await runTurn(test, "s", "one")).data.status).toBe("completed");
    expect(assistantTexts(await readAll(test.log, "s"))).toEqual(['prompt [{"type":"text","text":"one"}]']);
  });

  it("is greeted and prompted once, also through a restart of the server", async () => {
    const program = lines(
      "read -r hello; sleep 1; echo ready",
      "read -r prompt",
      sayVariable("prompt", "a"),
      tell(END),
      "read -r more",
      sayVariable("more", "b"),
    );
    await open(program);
    const { turnId } = await say(test.engine, "s", "one");
    await waitFor(test.log, "s", "turn.started");
    await test.restart();
    await waitFor(test.log, "s", "turn.ended", { where: (event) => event.data.turn_id === turnId });
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(assistantTexts(events)).toEqual(['prompt [{"type":"text","text":"one"}]']);
  });

  it("gets an image as its bytes", async () => {
    await open(lines(GREETED, "read -r prompt", sayVariable("prompt", "a"), tell(END)));
    await (await test.engine.files("s")).write("dot.png", new Uint8Array([1, 2, 3]));
    await test.engine.send("s", {
      via: "test",
      content: [
        { type: "text", text: "look" },
        { type: "image", path: "dot.png" },
      ],
    });
    await waitFor(test.log, "s", "turn.ended");
    expect(assistantTexts(await readAll(test.log, "s"))[0]).toContain("data:image/png;base64,AQID");
  });
});

describe("a message into a running turn", () => {
  const program = lines(
    GREETED,
    "read -r prompt",
    sayVariable("prompt", "a"),
    "read -r more",
    sayVariable("more", "b"),
    tell(END),
    "read -r last",
    tell(END),
  );

  it("with the delivery steer joins it, and is an item of it", async () => {
    await open(program);
    const first = await say(test.engine, "s", "one");
    await waitFor(test.log, "s", "item.completed", { where: ({ data }) => data.item.role === "assistant" });
    const content = [{ type: "text", text: "two" }] as const;
    const second = await test.engine.send("s", { via: "test", content, delivery: "steer" });
    expect(second.turnId).toBe(first.turnId);
    await waitFor(test.log, "s", "turn.ended");
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(assistantTexts(events)).toEqual([
      'prompt [{"type":"text","text":"one"}]',
      'steer [{"type":"text","text":"two"}]',
    ]);
    const said = ofType(events, "item.completed").filter(({ data }) => data.item.role === "user");
    expect(said.map(({ turn_id: turn }) => turn)).toEqual([first.turnId, first.turnId]);
  });

  it("waits for its own turn otherwise", async () => {
    await open(lines(GREETED, "while read -r prompt; do sleep 0.2", tell(END), "done"));
    const first = await say(test.engine, "s", "one");
    await waitFor(test.log, "s", "turn.started");
    const second = await say(test.engine, "s", "two");
    expect(second.turnId).not.toBe(first.turnId);
    await waitFor(test.log, "s", "turn.ended", { where: ({ data }) => data.turn_id === second.turnId });
    expectTurnsEnd(await readAll(test.log, "s"));
  });
});

const retrying = (attempt: number): string =>
  tell({
    type: "turn.retrying",
    data: {
      turn_id: "",
      attempt,
      delay_ms: 1,
      error: { code: "overloaded", message: "529", retryable: true },
    },
  });

describe("a model that fails", () => {
  it("and a CLI that would retry for ever: the session's budget ends it", async () => {
    const program = lines(
      GREETED,
      "read -r prompt",
      retrying(1),
      retrying(2),
      retrying(3),
      'read -r stop; test "$stop" = interrupt || exit 9',
      tell(STOPPED),
      "read -r more",
    );
    await open(program, { spec: { retries: { tries: 3, backoffMs: 1 } } });
    const end = await runTurn(test, "s", "go");
    expect(end.data).toMatchObject({
      status: "failed",
      stop_reason: "retries_exhausted",
      error: { code: "overloaded" },
    });
    const events = await readAll(test.log, "s");
    expect(ofType(events, "error").map(({ data }) => data.code)).toEqual(["overloaded"]);
    expect((await test.engine.info("s")).ended).toBe(false);
  });

  it("by silence: the turn ends, with the reason", async () => {
    const program = lines(GREETED, "read -r prompt", "read -r stop", tell(STOPPED), "read -r more");
    await open(program, { spec: { silenceTimeoutMs: 300 } });
    const end = await runTurn(test, "s", "go");
    expect(end.data).toMatchObject({
      status: "failed",
      stop_reason: "timeout",
      error: { code: "model_timeout" },
    });
    expect(end.data.error?.message).toContain("silenceTimeoutMs");
  });

  it("does not count as silent while a tool runs", async () => {
    const call = {
      item_id: "c",
      kind: "tool_call",
      role: "assistant",
      status: "completed",
      content: [{ type: "tool_call", name: "Bash", arguments: "{}", call_id: "c1" }],
    };
    const result = {
      item_id: "r",
      parent_id: "c",
      kind: "tool_result",
      role: "tool",
      status: "completed",
      content: [{ type: "tool_result", call_id: "c1", output: "done" }],
    };
    const program = lines(
      GREETED,
      "read -r prompt",
      tell({ type: "item.completed", data: { item: call } }),
      "sleep 1",
      tell({ type: "item.completed", data: { item: result } }),
      tell(END),
      "read -r more",
    );
    await open(program, { spec: { silenceTimeoutMs: 300 } });
    expect((await runTurn(test, "s", "go")).data.status).toBe("completed");
  });
});

describe("an unattended session", () => {
  const permission = {
    type: "permission.requested",
    data: { permission_id: "perm_1", action: "Bash", status: "requested", metadata: { kind: "execute" } },
  };
  const question = {
    type: "question.requested",
    data: { question_id: "ques_1", prompt: "Which?", options: ["a"], status: "requested" },
  };
  const program = lines(
    GREETED,
    "read -r prompt",
    tell(permission),
    "read -r first",
    tell(question),
    "read -r second",
    sayVariable("first", "a"),
    sayVariable("second", "b"),
    tell(END),
    "read -r more",
  );

  it("refuses every request of the agent at once, with an error event", async () => {
    await open(program, { spec: { unattended: true } });
    expect((await runTurn(test, "s", "go")).data.status).toBe("completed");
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(assistantTexts(events)).toEqual(["permission reject", "question null"]);
    expect(ofType(events, "permission.resolved")[0]?.data).toMatchObject({
      status: "denied",
      metadata: { by: "policy:unattended" },
    });
    expect(ofType(events, "error").map(({ data }) => data.code)).toEqual([
      "permission_denied",
      "permission_denied",
    ]);
    expect(ofType(events, "turn.waiting")).toEqual([]);
  });

  it("refuses tools without a named runner, and waits for a named one", async () => {
    test = await openEngine();
    const asks = script({ custom: { name: "weather", input: {} } }, { say: "done" });
    await test.engine.create("alone", { agent: "scripted", sandbox: "local", unattended: true });
    expect((await runTurn(test, "alone", asks)).data.status).toBe("completed");
    const events = await readAll(test.log, "alone");
    expectLawful(events);
    expect(ofType(events, "tool.resolved").map(({ data }) => [data.status, data.by])).toEqual([
      ["failed", "policy:unattended"],
    ]);
    expect(ofType(events, "turn.waiting")).toEqual([]);
    const custom = [{ name: "weather", description: "", inputSchema: { type: "object" } }];
    const spec = { agent: "scripted", sandbox: "local", unattended: true, tools: { custom } };
    await test.engine.create("named", spec);
    await say(test.engine, "named", asks);
    const { data } = await waitFor(test.log, "named", "turn.waiting");
    await test.engine.resolveTool("named", data.actions[0]?.id ?? "", { output: "sunny" });
    const end = await waitFor(test.log, "named", "turn.ended");
    expect(end.data.status).toBe("completed");
  });
});

describe("a choice that the agent does not have", () => {
  it("is refused at the creation of the session", async () => {
    await open(GREETED);
    const spec = { agent: "facts" };
    await expect(test.engine.create("m", { ...spec, agentMode: "ask" })).rejects.toMatchObject({
      code: "mode_not_supported",
      message: 'Facts has no mode "ask"; choose one of build.',
    });
    await expect(test.engine.create("v", { ...spec, variant: "low" })).rejects.toMatchObject({
      code: "mode_not_supported",
    });
  });
});
