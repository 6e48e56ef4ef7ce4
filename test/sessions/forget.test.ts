import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  openEngine,
  readAll,
  runTurn,
  say,
  script,
  SCRIPTED,
  type TestEngine,
  waitFor,
} from "../support/engine.ts";
import { assistantTexts, expectLawful } from "../support/laws.ts";

let test: TestEngine;
beforeEach(async () => {
  test = await openEngine();
});
afterEach(() => test.close());

describe("the change to forget", () => {
  it("begins a new native session with the next message", async () => {
    await test.engine.create("s", SCRIPTED);
    await runTurn(test, "s", script({ say: "first" }));
    const before = (await test.engine.info("s")).nativeSessionId;
    await test.engine.update("s", { forget: true });
    expect((await test.engine.info("s")).nativeSessionId).toBeNull();
    await test.restart();
    await runTurn(test, "s", script({ say: "$history" }, { say: "second" }));
    const after = (await test.engine.info("s")).nativeSessionId;
    expect(after).not.toBe(before);
    const events = await readAll(test.log, "s");
    // An agent with its memory would repeat the earlier prompts.
    expect(assistantTexts(events).filter((text) => text.includes("#script"))).toEqual([]);
    expectLawful(events);
  });

  it("changes nothing the second time, and is refused while a turn runs", async () => {
    await test.engine.create("s", SCRIPTED);
    await test.engine.update("s", { forget: true });
    expect(await readAll(test.log, "s")).toEqual([]);
    await runTurn(test, "s", "hello");
    const { after } = await say(test.engine, "s", script({ sleep: 60_000 }));
    await waitFor(test.log, "s", "turn.started", { after });
    await expect(test.engine.update("s", { forget: true })).rejects.toMatchObject({ code: "session_busy" });
    const { turnId } = await test.engine.interrupt("s", { turnId: "turn_of_another_day", stop: true });
    expect(turnId).toBeUndefined();
    expect((await test.engine.info("s")).status).toBe("running");
    await test.engine.interrupt("s", { stop: true });
    expect((await readAll(test.log, "s")).at(-1)).toMatchObject({ type: "process.ended" });
  });
});
