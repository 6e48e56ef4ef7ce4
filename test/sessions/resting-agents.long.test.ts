import { afterAll, beforeAll, expect, it } from "vitest";
import type { EventOf } from "../../src/contract/index.ts";
import { toRestingBound } from "../../src/sessions/process/idle.ts";
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
import { END, factAgent, tell } from "./fact-agent.ts";

const KEPT = 2;

let test: TestEngine;
beforeAll(async () => {
  test = await openEngine({ restingAgents: KEPT });
});
afterAll(() => test.close());

async function rest(...sessions: string[]): Promise<void> {
  for (const session of sessions) {
    await test.engine.create(session, SCRIPTED);
    await runTurn(test, session, script({ say: session }));
  }
}

async function endsOf(session: string): Promise<EventOf<"process.ended">[]> {
  return ofType(await readAll(test.log, session), "process.ended");
}

it("beyond the bound, the longest idle agents end, and start again with their memory", async () => {
  await rest("a", "b", "c", "d");
  await expect.poll(() => test.engine.stats().processesRunning).toBe(KEPT);
  expect(test.engine.stats().resting).toEqual({ agents: KEPT, bound: KEPT, putToSleep: 2 });
  for (const session of ["a", "b"]) await waitFor(test.log, session, "process.ended");
  expect([await endsOf("c"), await endsOf("d")]).toEqual([[], []]);

  await runTurn(test, "c", script({ say: "used again" }));
  const { data } = await runTurn(test, "a", script({ say: "again" }));
  expect(data.status).toBe("completed");
  await waitFor(test.log, "d", "process.ended");
  expect(await endsOf("c")).toEqual([]);
  const events = await readAll(test.log, "a");
  expectLawful(events);
  expect(ofType(events, "process.started")).toHaveLength(2);
  expect(new Set(events.map(({ native_session_id: id }) => id).filter((id) => id !== undefined)).size).toBe(
    1,
  );
});

it("no turn, command or paused session is ended for the bound", async () => {
  await rest("paused", "commanded");
  await test.engine.pause("paused");
  await test.engine.exec("commanded", { command: "sleep 60" });
  await test.engine.create("working", SCRIPTED);
  await say(test.engine, "working", script({ sleep: 60_000 }));
  await waitFor(test.log, "working", "turn.started");
  await rest("e", "f", "g");
  await waitFor(test.log, "e", "process.ended");
  for (const session of ["paused", "commanded", "working", "f", "g"])
    expect(await endsOf(session), session).toEqual([]);

  // After its command it is idle, and another agent has to end.
  await test.engine.interrupt("commanded");
  await waitFor(test.log, "f", "process.ended");
  expect(await endsOf("commanded")).toEqual([]);
  await test.engine.resume("paused");
  await waitFor(test.log, "g", "process.ended");
  expect(await endsOf("working")).toEqual([]);
});

it("a command that starts while its idle agent ends does not end with it", async () => {
  // It does not exit when its input is closed.
  const stubborn = factAgent(
    `echo ready; while read -r line; do case $line in prompt*) ${tell(END)}\n;; esac; done; sleep 60`,
  );
  const other = await openEngine({ restingAgents: 1, harnesses: [stubborn], limits: { gentleMs: 1_500 } });
  try {
    for (const session of ["a", "b"]) {
      await other.engine.create(session, { agent: "facts" });
      await runTurn(other, session, "go");
    }
    await expect.poll(() => other.engine.stats().resting.putToSleep).toBe(1);
    await other.engine.exec("a", { command: "sleep 2; echo through" });
    const { data } = await waitFor(other.log, "a", "command.ended");
    expect(data).toMatchObject({ status: "completed", exit_code: 0 });
    expectLawful(await readAll(other.log, "a"));
  } finally {
    await other.close();
  }
});

it("the bound holds for agents of an earlier server", async () => {
  await test.restart({ restingAgents: 1 });
  await expect
    .poll(() => test.engine.stats().resting, { timeout: 10_000 })
    .toMatchObject({ agents: 1, putToSleep: 1 });
  expect(await endsOf("working")).toEqual([]);
});

it("the bound is a share of the memory, with a minimum", () => {
  expect(toRestingBound({ limit: 16 * 1024 ** 3 })).toBe(163);
  expect(toRestingBound({ limit: 256 * 1024 ** 2 })).toBe(16);
});
