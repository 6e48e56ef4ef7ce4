import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { toStatus } from "../../src/dialects/anthropic/resources/session.ts";
import { createLocalProvider } from "../../src/sandbox/index.ts";
import type { SandboxProvider } from "../../src/sandbox/port.ts";
import { expectLawful } from "../support/laws.ts";
import { ofType, openEngine, readAll, runTurn, say, waitFor, type TestEngine } from "../support/engine.ts";
import { END, factAgent, tell } from "./fact-agent.ts";

const AT_ONCE = 2;
const quick = factAgent(
  `echo ready; while read -r line; do case $line in prompt*) ${tell(END)}\n;; esac; done`,
);

let test: TestEngine;
let root: string;
/** No sandbox is made before it opens. */
let gate = closedGate();
let making = 0;
let most = 0;
const order: string[] = [];

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-queue-"));
  const local = createLocalProvider({ root });
  const provider: SandboxProvider = {
    id: local.id,
    isolated: false,
    detect: () => local.detect(),
    connect: (id, claim) => local.connect(id, claim),
    create: async (spec, claim) => {
      order.push(spec.session ?? "");
      most = Math.max(most, ++making);
      await gate.opened;
      const sandbox = await local.create(spec, claim);
      making -= 1;
      return sandbox;
    },
  };
  test = await openEngine({
    providers: [provider],
    defaultSandbox: "local",
    harnesses: [quick],
    startsAtOnce: AT_ONCE,
  });
});
afterAll(async () => {
  await test.close();
  await rm(root, { recursive: true, force: true });
});

it("sixty sessions at once start one after the other, and all of them finish", async () => {
  const sessions = Array.from({ length: 60 }, (_, n) => `q-${n}`);
  for (const session of sessions) await test.engine.create(session, { agent: "facts", sandbox: "local" });
  for (const session of sessions) await say(test.engine, session, "go");
  expect(test.engine.stats().starts).toMatchObject({ waiting: 58, starting: AT_ONCE });
  expect(await test.engine.info("q-59")).toMatchObject({ status: "starting", queued: 1 });
  expect(toStatus(await test.engine.info("q-59"))).toBe("running");

  // A start that is stopped in the queue leaves it, and nothing was started.
  expect(await test.engine.interrupt("q-30")).toMatchObject({ turnId: expect.any(String) });
  await test.engine.terminate("q-31");
  await test.engine.remove("q-32");
  await expect.poll(() => test.engine.stats().starts).toMatchObject({ waiting: 55, withdrawn: 3 });
  expect(await test.engine.info("q-30")).toMatchObject({ status: "idle", queued: 0 });
  for (const session of ["q-30", "q-31"]) {
    const events = await readAll(test.log, session);
    expectLawful(events);
    expect(ofType(events, "turn.ended").map(({ data }) => data.status)).toEqual(["interrupted"]);
    expect(ofType(events, "sandbox.boot")).toEqual([]);
  }
  // A waiting session with two messages gives up the first alone.
  await say(test.engine, "q-40", "and again");
  await test.engine.interrupt("q-40");

  gate.open();
  const stopped = new Set(["q-30", "q-31", "q-32"]);
  for (const session of sessions.filter((session) => !stopped.has(session)))
    await waitFor(test.log, session, "turn.ended", {
      where: ({ data }) => data.status === "completed",
      timeoutMs: 120_000,
    });
  expect((await runTurn(test, "q-30", "once more")).data.status).toBe("completed");
  expect(most).toBe(AT_ONCE);
  expect(order).toEqual([...sessions.filter((session) => !stopped.has(session)), "q-30"]);
  expect(test.engine.stats().starts).toMatchObject({ waiting: 0, admitted: 58, withdrawn: 3 });
  const left = sessions.filter((session) => session !== "q-32");
  await Promise.all(left.map((session) => test.engine.remove(session)));
}, 180_000);

it("a waiting start is withdrawn by a closing server, and made by the next", async () => {
  gate = closedGate();
  for (const session of ["a", "b", "c"]) {
    await test.engine.create(session, { agent: "facts", sandbox: "local" });
    await say(test.engine, session, "go");
  }
  expect(test.engine.stats().starts.waiting).toBe(1);
  const restarted = test.restart();
  gate.open();
  await restarted;
  for (const session of ["a", "b", "c"]) {
    expect((await waitFor(test.log, session, "turn.ended")).data.status).toBe("completed");
    expectLawful(await readAll(test.log, session));
  }
});

it("an interrupt withdraws the message of a start that is under way", async () => {
  gate = closedGate();
  await test.engine.create("early", { agent: "facts", sandbox: "local" });
  const { turnId } = await say(test.engine, "early", "go");
  await expect.poll(() => test.engine.stats().starts).toMatchObject({ starting: 1, waiting: 0 });
  expect(await test.engine.interrupt("early")).toEqual({ turnId });
  gate.open();
  expect((await runTurn(test, "early", "once more")).data.status).toBe("completed");
  const events = await readAll(test.log, "early");
  expectLawful(events);
  const statuses = ofType(events, "turn.ended").map(({ data }) => data.status);
  expect(statuses).toEqual(["interrupted", "completed"]);
  expect(ofType(events, "process.started")).toHaveLength(1);
});

function closedGate(): { opened: Promise<void>; open: () => void } {
  const gate = new EventTarget();
  const opened = new Promise<void>((resolve) => gate.addEventListener("open", () => resolve()));
  return { opened, open: () => void gate.dispatchEvent(new Event("open")) };
}
