import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { expectLawful } from "../support/laws.ts";
import {
  ofType,
  openEngine,
  readAll,
  runTurn,
  say,
  script,
  SCRIPTED,
  waitFor,
  type TestEngine,
} from "../support/engine.ts";

describe("pause", () => {
  let test: TestEngine;
  beforeEach(async () => {
    test = await openEngine({ limits: { interruptMs: 500 } });
    await test.engine.create("s", SCRIPTED);
  });
  afterEach(() => test.close());

  it("freezes a running turn, and resume continues it", async () => {
    await say(
      test.engine,
      "s",
      script({ shell: "for i in $(seq 1 40); do echo $i; sleep 0.02; done" }, { say: "through" }),
    );
    await waitFor(test.log, "s", "item.delta");
    await test.engine.pause("s");
    expect((await test.engine.info("s")).paused).toBe(true);
    const { eventCount } = await test.engine.info("s");
    const queued = await say(test.engine, "s", script({ say: "queued" }));
    expect(ofType(await readAll(test.log, "s"), "turn.ended")).toEqual([]);
    await test.engine.resume("s");
    await waitFor(test.log, "s", "turn.ended", { where: (event) => event.data.turn_id === queued.turnId });
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(events.length).toBeGreaterThan(eventCount);
    expect(events.map((event) => event.type)).toEqual(
      expect.arrayContaining(["sandbox.paused", "sandbox.resumed"]),
    );
  });

  it("survives a restart, and an interrupt still ends the turn", async () => {
    await say(test.engine, "s", script({ sleep: 60_000 }));
    await waitFor(test.log, "s", "turn.started");
    await test.engine.pause("s");
    await test.restart();
    expect((await test.engine.info("s")).paused).toBe(true);
    await test.engine.interrupt("s");
    expect(await test.engine.info("s")).toMatchObject({ paused: false, status: "idle" });
    expectLawful(await readAll(test.log, "s"));
  });

  it("survives the idle alarm, before and after a restart", async () => {
    await test.engine.create("sleeper", SCRIPTED);
    await runTurn(test, "s", script({ say: "a" }));
    await test.engine.pause("s");
    await test.restart({ limits: { idleMs: 1 } });
    // The idle alarm of this server rings for another session.
    await runTurn(test, "sleeper", script({ say: "b" }));
    await waitFor(test.log, "sleeper", "process.ended");
    expect(await test.engine.info("s")).toMatchObject({ paused: true });
    expect(ofType(await readAll(test.log, "s"), "process.ended")).toEqual([]);
    await test.engine.resume("s");
    await waitFor(test.log, "s", "process.ended");
  });

  it("a paused session can be terminated", async () => {
    await say(test.engine, "s", script({ sleep: 60_000 }));
    await waitFor(test.log, "s", "turn.started");
    await test.engine.pause("s");
    await test.engine.terminate("s");
    expectLawful(await readAll(test.log, "s"));
  });

  it("gives the address of a port in the sandbox", async () => {
    const server = `require("http").createServer((_, response) => response.end("hello from inside")).listen(48123, "127.0.0.1", () => console.log("up"))`;
    await say(test.engine, "s", script({ shell: `'${process.execPath}' -e '${server}'` }));
    await waitFor(test.log, "s", "item.delta");
    const url = await test.engine.host("s", 48123);
    expect(await (await fetch(url)).text()).toBe("hello from inside");
    await test.engine.interrupt("s");
  });
});
