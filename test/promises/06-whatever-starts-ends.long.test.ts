import { setTimeout as sleep } from "node:timers/promises";
import * as fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  openEngine,
  processesWith,
  readAll,
  say,
  script,
  SCRIPTED,
  waitFor,
  type TestEngine,
} from "../support/engine.ts";
import { expectLawful } from "../support/laws.ts";

let test: TestEngine;
beforeAll(async () => {
  test = await openEngine({ limits: { interruptMs: 300, gentleMs: 200 } });
});
afterAll(() => test.close());

const step = fc.oneof(
  fc.record({ say: fc.string({ maxLength: 40 }) }),
  fc.record({ think: fc.string({ maxLength: 40 }) }),
  fc.constant({ shell: "echo out; echo err >&2; sleep 0.05" }),
  fc.constant({ write: { path: "f.txt", content: "f" } }),
  fc.constant({ ask: { shell: "true" } }),
  fc.constant({ question: { prompt: "?", options: ["a", "b"] } }),
  fc.constant({ custom: { name: "t", input: {} } }),
  fc.constant({ parallel: [{ shell: "sleep 0.05" }, { shell: "echo p" }] }),
  fc.constant({ subagent: { name: "sub", steps: [{ say: "nested" }, { shell: "echo deep" }] } }),
  fc.constant({ plan: [{ content: "p", status: "pending", priority: "medium" }] }),
  fc.constant({ fail: { kind: "overloaded", times: 1 } }),
  fc.constant({ flood: { events: 300, bytes: 10 } }),
  fc.constant({ raw: "{half a line" }),
  fc.constant({ compact: true }),
  fc.constant({ sleep: 30 }),
);
const ending = fc.constantFrom("wait", "interrupt", "terminate", "exit", "crash", "restart");

it(
  "promise 6: whatever a turn does and however it ends, all is closed and one event says so",
  { timeout: 240_000 },
  async () => {
    let run = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 6 }),
        ending,
        fc.integer({ min: 0, max: 250 }),
        async (steps, how, delay) => {
          const id = `run-${run++}`;
          await test.engine.create(id, { ...SCRIPTED, retries: { tries: 3, backoffMs: 20 } });
          const last = how === "exit" ? [{ exit: 2 }] : how === "crash" ? [{ signal: "SIGKILL" }] : [];
          const { turnId, after } = await say(test.engine, id, script(...steps, ...last));
          if (how === "interrupt" || how === "terminate" || how === "restart") await sleep(delay);
          if (how === "interrupt") await test.engine.interrupt(id);
          if (how === "terminate") await test.engine.terminate(id);
          if (how === "restart") await test.restart();
          await answerUntilEnded(id, turnId, after);
          const events = await readAll(test.log, id);
          expectLawful(events);
          await test.engine.remove(id);
        },
      ),
      { numRuns: 25 },
    );
    expect(await processesWith(test.folder)).toEqual([]);
  },
);

async function answerUntilEnded(id: string, turnId: string, after: number): Promise<void> {
  const ended = new AbortController();
  const answering = (async () => {
    while (!ended.signal.aborted) {
      const { pendingActions } = await test.engine.info(id);
      for (const action of pendingActions) {
        const answered =
          action.kind === "permission"
            ? test.engine.resolvePermission(id, action.id, { reply: "once" })
            : action.kind === "question"
              ? test.engine.resolveQuestion(id, action.id, { answers: [["a"]] })
              : test.engine.resolveTool(id, action.id, { output: "ok" });
        // The turn may end meanwhile.
        await answered.catch(() => {});
      }
      await sleep(20);
    }
  })();
  await Promise.race([
    waitFor(test.log, id, "turn.ended", { after, where: (event) => event.data.turn_id === turnId }),
    waitFor(test.log, id, "session.ended", { after }),
  ]);
  ended.abort();
  await answering;
}
