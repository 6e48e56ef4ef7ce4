import * as fc from "fast-check";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import type { Harness } from "../../src/harness/port.ts";
import { scripted } from "../../src/harness/scripted/harness.ts";
import { expectLawful } from "../support/laws.ts";
import { END, factAgent, tell } from "./factAgent.ts";
import {
  ofType,
  openEngine,
  processesWith,
  readAll,
  runTurn,
  say,
  script,
  waitFor,
  type TestEngine,
} from "../support/engine.ts";

const LIMITS = { interruptMs: 300, gentleMs: 200, stopMs: 200 };

/** It cannot be greeted the first time, as on a disk that was full for a moment. */
let greetings = 0;
const shy = {
  ...factAgent(`echo ready; while read -r line; do case $line in prompt*) ${tell(END)}\n;; esac; done`),
  greet: () => {
    greetings += 1;
    if (greetings === 1) throw new Error("no words");
    return [];
  },
};

let test: TestEngine;
beforeAll(async () => {
  test = await openEngine({ limits: LIMITS, defaultSandbox: "local", harnesses: [scripted as Harness, shy] });
});
afterAll(() => test.close());

it("a start that fails halfway leaves no process, and the next message starts another", async () => {
  await test.engine.create("shy", { agent: "facts", sandbox: "local" });
  const failed = await runTurn(test, "shy", "first");
  expect(failed.data).toMatchObject({ status: "failed", error: { message: "no words" } });
  const sandbox = ofType(await readAll(test.log, "shy"), "sandbox.boot")[0]?.data.sandbox_id ?? "none";
  expect(await processesWith(sandbox)).toEqual([]);
  expect((await runTurn(test, "shy", "second")).data.status).toBe("completed");
  const events = await readAll(test.log, "shy");
  expectLawful(events);
  expect(ofType(events, "process.ended").map((event) => event.data.process)).toEqual([1]);
});

/** The codes by which a session may say that it cannot do this now. */
const REFUSALS = ["session_ended", "session_busy", "draining", "stream_error"];

type Act = (session: string) => Promise<unknown>;
const acts: Record<string, Act> = {
  send: (session) => say(test.engine, session, script({ say: "a" }, { sleep: 5 }, { say: "b" })),
  "send at length": (session) => say(test.engine, session, script({ say: "a" }, { sleep: 60_000 })),
  crash: (session) => say(test.engine, session, script({ say: "so far" }, { signal: "SIGKILL" })),
  interrupt: (session) => test.engine.interrupt(session),
  stop: (session) => test.engine.interrupt(session, { stop: true }),
  pause: (session) => test.engine.pause(session),
  resume: (session) => test.engine.resume(session),
  terminate: (session) => test.engine.terminate(session),
  reopen: () => test.restart(),
};

it("whatever is done to a session in whatever order, its log is whole and nothing hangs", async () => {
  let runs = 0;
  const names = fc.array(fc.tuple(fc.constantFrom(...Object.keys(acts)), fc.nat(40)), {
    minLength: 3,
    maxLength: 7,
  });
  const holds = fc.asyncProperty(names, async (order) => {
    runs += 1;
    const session = `any-${runs}`;
    await test.engine.create(session, { agent: "scripted", sandbox: "local", lasting: true });
    const accepted: string[] = [];
    const under: Promise<void>[] = [];
    for (const [name, ms] of order) {
      const act = (acts[name] as Act)(session).then(
        (answer) => {
          const { turnId, inputId } = (answer ?? {}) as { turnId?: string; inputId?: string };
          if (inputId !== undefined && turnId !== undefined) accepted.push(turnId);
        },
        (error: { code?: string }) => expect(REFUSALS).toContain(error.code),
      );
      act.catch(() => {});
      under.push(act);
      // A new life needs the old one's end; all else may overlap.
      if (name === "reopen") await Promise.allSettled(under);
      await new Promise((resolve) => setTimeout(resolve, ms));
    }
    // Whatever still waits is let go on, and stopped.
    const isQuiet = async (): Promise<boolean> => {
      await test.engine.resume(session).catch(() => {});
      await test.engine.interrupt(session).catch(() => {});
      const { status, queued } = await test.engine.info(session);
      return (status === "idle" && queued === 0) || status === "ended";
    };
    await vi.waitUntil(isQuiet, { timeout: 60_000, interval: 50 });
    await Promise.all(under);
    const events = await readAll(test.log, session);
    expectLawful(events);
    const ended = ofType(events, "turn.ended").map((event) => event.data.turn_id);
    expect(ended.toSorted()).toEqual(accepted.toSorted());
    expect(new Set(ended).size).toBe(ended.length);
    // It still does what it is for, or says that it has ended.
    const { ended: isOver } = await test.engine.info(session);
    if (!isOver) expect((await runTurn(test, session, script({ say: "on" }))).data.status).toBe("completed");
    else if (ofType(events, "process.started").length > 0) await waitFor(test.log, session, "process.ended");
  });
  await fc.assert(holds, {
    numRuns: 6,
    endOnFailure: true,
    examples: [
      [
        [
          ["send", 0],
          ["send at length", 30],
          ["stop", 0],
          ["terminate", 0],
        ],
      ],
      [
        [
          ["crash", 40],
          ["interrupt", 0],
          ["send", 0],
          ["pause", 0],
          ["reopen", 0],
        ],
      ],
    ],
  });
}, 180_000);
