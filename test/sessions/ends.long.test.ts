import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { assistantTexts, expectLawful } from "../support/laws.ts";
import {
  ofType,
  openEngine,
  processesWith,
  readAll,
  runTurn,
  say,
  script,
  SCRIPTED,
  waitFor,
  type TestEngine,
} from "../support/engine.ts";

describe("the end of a turn or a session", () => {
  let test: TestEngine;
  beforeEach(async () => {
    test = await openEngine({ limits: { interruptMs: 500 } });
    await test.engine.create("s", SCRIPTED);
  });
  afterEach(() => test.close());

  const moments: [string, unknown[], (test: TestEngine) => Promise<unknown>][] = [
    ["while it sleeps", [{ sleep: 60_000 }], (test) => waitFor(test.log, "s", "turn.started")],
    [
      "while a command runs",
      [{ shell: "echo on; sleep 60" }],
      (test) => waitFor(test.log, "s", "item.delta"),
    ],
    [
      "while it floods",
      [{ flood: { events: 2_000_000, bytes: 20 } }],
      (test) => waitFor(test.log, "s", "item.delta"),
    ],
    ["while it asks", [{ ask: { shell: "true" } }], (test) => waitFor(test.log, "s", "turn.waiting")],
    [
      "between retries",
      [{ fail: { kind: "overloaded", times: 3 } }],
      (test) => waitFor(test.log, "s", "turn.retrying"),
    ],
  ];

  it.each(moments)("interrupts %s, in place", async (_, steps, moment) => {
    await say(test.engine, "s", script(...steps));
    await moment(test);
    await test.engine.interrupt("s");
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(ofType(events, "turn.ended").at(-1)?.data).toMatchObject({
      status: "interrupted",
      stop_reason: "interrupted",
    });
    expect((await test.engine.info("s")).status).toBe("idle");
    expect((await runTurn(test, "s", script({ say: "on it goes" }))).data.status).toBe("completed");
    expect(ofType(await readAll(test.log, "s"), "process.started")).toHaveLength(1);
  });

  it("kills an agent that ignores an interrupt, and the session goes on", async () => {
    await runTurn(test, "s", "remember me");
    await say(
      test.engine,
      "s",
      script({ shell: `trap "" INT TERM; kill -STOP $PPID; touch deaf; sleep 60` }),
    );
    const files = await test.engine.files("s");
    await vi.waitUntil(
      () =>
        files.stat("deaf").then(
          () => true,
          () => false,
        ),
      { timeout: 20_000 },
    );
    await test.engine.interrupt("s");
    expect((await test.engine.info("s")).status).toBe("idle");
    await runTurn(test, "s", script({ say: "$history" }));
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(ofType(events, "process.started")).toHaveLength(2);
    expect(assistantTexts(events).at(-1)).toContain("remember me");
  });

  it("interrupting an idle session changes nothing", async () => {
    await runTurn(test, "s", script({ say: "a" }));
    const { head } = (await test.log.find("s")) ?? { head: -1 };
    expect(await test.engine.interrupt("s")).toEqual({});
    expect((await test.log.find("s"))?.head).toBe(head);
  });

  it.each([
    ["exits", { exit: 3 }, { exit_code: 3 }],
    ["is killed", { signal: "SIGKILL" }, { exit_code: 137 }],
  ])("an agent that %s ends its turn, then its session", async (_, step, expected) => {
    const ended = await runTurn(test, "s", script({ stderr: "oh no\n" }, { say: "so far" }, step));
    expect(ended.data).toMatchObject({ status: "failed", stop_reason: "agent_exited" });
    await waitFor(test.log, "s", "session.ended");
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(events.at(-1)?.type).toBe("session.ended");
    expect(events.at(-1)?.data).toMatchObject({
      reason: "error",
      terminated_by: "agent",
      stderr: { head: expect.stringContaining("oh no"), truncated: false },
      ...expected,
    });
    expect(assistantTexts(events)).toEqual(["so far"]);
    await expect(say(test.engine, "s", "more")).rejects.toMatchObject({ code: "session_ended" });
  });

  it("an agent that prints garbage is recorded, and goes on", async () => {
    const garbage = Buffer.from([0xff, 0xfe, 0x80, 0x0a, 0x00, 0x01, 0x0a]).toString("base64");
    await runTurn(
      test,
      "s",
      script(
        { raw: "not json" },
        { raw: '{"type":"never.heard.of"}' },
        { rawBytes: garbage },
        { say: "fine" },
      ),
    );
    const events = await readAll(test.log, "s", true);
    expectLawful(events);
    const unparsed = ofType(events, "agent.unparsed");
    expect(unparsed).toHaveLength(4);
    expect(unparsed[0]?.raw).toBe("not json");
    expect(assistantTexts(events)).toEqual(["fine"]);
  });

  it("retries a passing failure, then gives up", async () => {
    await test.engine.create("retry", { ...SCRIPTED, retries: { tries: 3, backoffMs: 10 } });
    expect(
      (await runTurn(test, "retry", script({ fail: { kind: "overloaded", times: 2 } }, { say: "made it" })))
        .data.status,
    ).toBe("completed");
    expect(
      (await runTurn(test, "retry", script({ fail: { kind: "rate_limited", times: 99 } }))).data,
    ).toMatchObject({
      status: "failed",
      stop_reason: "retries_exhausted",
    });
    expect((await runTurn(test, "retry", script({ say: "afresh" }))).data.status).toBe("completed");
    const events = await readAll(test.log, "retry");
    expectLawful(events);
    expect(ofType(events, "turn.retrying").map((event) => event.data.attempt)).toEqual([1, 2, 1, 2]);
    expect(ofType(events, "error").map((event) => event.data.code)).toEqual([
      "overloaded",
      "overloaded",
      "rate_limited",
      "rate_limited",
      "rate_limited",
    ]);
  });

  it("ends the session where no retry can help", async () => {
    await say(test.engine, "s", script({ fail: { kind: "terminal" } }));
    await waitFor(test.log, "s", "session.ended");
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(events.at(-1)?.data).toMatchObject({ reason: "error" });
    expect(await processesWith(test.folder)).toEqual([]);
  });

  it("terminates the whole tree, setsid children included", async () => {
    await say(
      test.engine,
      "s",
      script({ shell: "setsid sleep 1000 & nohup sleep 1000 & echo up; sleep 1000" }),
    );
    await waitFor(test.log, "s", "item.delta");
    await test.engine.terminate("s");
    const sandbox = ofType(await readAll(test.log, "s"), "sandbox.boot")[0]?.data.sandbox_id ?? "none";
    expect(await processesWith(sandbox)).toEqual([]);
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(events.at(-1)?.data).toEqual({ reason: "terminated", terminated_by: "daemon" });
    await expect(say(test.engine, "s", "more")).rejects.toMatchObject({ code: "session_ended" });
  });

  it("removes a running session, and its readers get `session.deleted`", async () => {
    await say(test.engine, "s", script({ sleep: 60_000 }));
    await waitFor(test.log, "s", "turn.started");
    await test.engine.remove("s");
    await expect(test.engine.info("s")).rejects.toMatchObject({ code: "session_not_found" });
    expect(await processesWith(test.folder)).toEqual([]);
    await test.engine.create("s", SCRIPTED);
    expect((await runTurn(test, "s", script({ say: "anew" }))).data.status).toBe("completed");
  });

  it("ends an idle agent, and starts it again with its memory", async () => {
    await test.restart({ limits: { idleMs: 50 } });
    await runTurn(test, "s", "before the sleep");
    await waitFor(test.log, "s", "process.ended");
    await runTurn(test, "s", script({ say: "$history" }));
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(ofType(events, "process.started")).toHaveLength(2);
    expect(ofType(events, "process.started")[1]?.data.resumed).toBeTypeOf("string");
    expect(assistantTexts(events).at(-1)).toContain("before the sleep");
  });
});
