import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../src/contract/index.ts";
import type { SessionRow } from "../../src/log/port.ts";
import { lastEventBefore, findTrimPoint } from "../../src/sessions/upkeep/retention.ts";
import type { EngineOptions, LogLine } from "../../src/sessions/index.ts";
import { openEngine, runTurn, say, script, SCRIPTED, type TestEngine, waitFor } from "../support/engine.ts";

const QUESTION = script({ question: { prompt: "go on?", options: ["yes", "no"] } }, { say: "done" });
/** Long enough for the setup on a busy machine. */
const LATER = 3_600_000;

let test: TestEngine;
const lines: LogLine[] = [];
afterEach(async () => {
  lines.length = 0;
  await test.close();
});

function optionsOf(retention: EngineOptions["retention"]): Partial<EngineOptions> {
  const limits = { retentionMs: 20 };
  return {
    defaultSandbox: "local",
    limits,
    logger: (line) => lines.push(line),
    ...(retention && { retention }),
  };
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 30_000;
  while (!(await isSo())) {
    if (Date.now() > deadline) throw new Error(`it did not come to pass: ${JSON.stringify(lines)}`);
    await sleep(20);
  }
}

const isGone = async (id: string): Promise<boolean> => (await test.log.find(id)) === undefined;

async function rowOf(id: string): Promise<SessionRow> {
  const row = await test.log.find(id);
  if (!row) throw new Error(`there is no session ${id}`);
  return row;
}

/** A session for each state in which it must not be removed. */
async function openBusy(): Promise<string[]> {
  const { engine, log } = test;
  const ids = ["waits", "paused", "commands", "queued"];
  for (const id of ids) {
    await engine.create(id, { ...SCRIPTED, ttl: 1 });
    if (id === "paused") await runTurn(test, id, script({ say: "hi" }));
  }
  await say(engine, "waits", QUESTION);
  await say(engine, "queued", QUESTION);
  await say(engine, "queued", script({ say: "later" }));
  await engine.exec("commands", { command: "sleep 300" });
  await engine.pause("paused");
  for (const id of ["waits", "queued"]) await waitFor(log, id, "turn.waiting");
  return ids;
}

describe("retention", () => {
  it("removes a session after its ttl, and no session in use", async () => {
    test = await openEngine(optionsOf(undefined));
    const busy = await openBusy();
    await test.engine.create("plain", SCRIPTED);
    await test.engine.create("short", { ...SCRIPTED, ttl: 1 });
    const reading = waitFor(test.log, "short", "session.deleted");
    await runTurn(test, "short", script({ say: "hi" }));
    await expect(reading).resolves.toMatchObject({ type: "session.deleted" });
    await until(() => isGone("short"));

    // All of the others have rested for longer than that one by now.
    await test.engine.create("last", { ...SCRIPTED, ttl: 1 });
    await test.restart();
    await until(() => isGone("last"));
    for (const id of [...busy, "plain"]) expect(await isGone(id), id).toBe(false);
    const [asked] = (await test.engine.info("waits")).pendingActions;
    await test.engine.resolveQuestion("waits", asked?.id ?? "", { answers: [["yes"]] });
    await until(() => isGone("waits"));
    expect(lines.filter(({ level }) => level === "error")).toEqual([]);
  });

  it("removes sessions that are too old, and trims a living one before its last turn", async () => {
    test = await openEngine(optionsOf(undefined));
    for (const id of ["old", "lives"]) await test.engine.create(id, SCRIPTED);
    for (const id of ["old", "lives", "lives"]) await runTurn(test, id, script({ say: "early" }));
    const { after } = await say(test.engine, "lives", QUESTION);
    await waitFor(test.log, "lives", "turn.waiting");
    await test.restart(optionsOf({ keepMs: 300 }));
    const isCut = async (): Promise<boolean> => {
      const row = await rowOf("lives");
      return row.floor > 0 && (await findTrimPoint(test.log, row, after)) === row.floor;
    };
    await until(async () => (await isGone("old")) && (await isCut()));

    // The waiting turn is too old by now, too.
    const { floor } = await rowOf("lives");
    const types = (await test.log.read("lives", { after: floor, limit: 1000 })).map(({ type }) => type);
    expect(types).toEqual(expect.arrayContaining(["input.accepted", "turn.started", "question.requested"]));
    expect(types).not.toContain("turn.ended");
    await expect(test.log.read("lives", { after: 0, limit: 1 })).rejects.toMatchObject({
      code: "cursor_gone",
      facts: { oldest: floor + 1 },
    });
    expect(await test.engine.info("lives")).toMatchObject({ oldest: floor + 1, status: "waiting" });
    await test.restart(optionsOf(undefined));
    expect((await answer("lives")).status).toBe("idle");
  });

  it("keeps the log to its size: trims resting sessions, then removes the longest resting", async () => {
    test = await openEngine(optionsOf(undefined));
    const { engine } = test;
    for (const id of ["first", "second", "waits"]) await engine.create(id, SCRIPTED);
    const long = script({ say: "x".repeat(200_000) });
    for (const id of ["first", "second", "waits"])
      for (let turn = 0; turn < 2; turn += 1) await runTurn(test, id, long);
    await say(engine, "waits", QUESTION);
    await waitFor(test.log, "waits", "turn.waiting");
    const size = await test.log.size();
    await test.restart(optionsOf({ keepBytes: size - 1 }));
    await until(async () => (await test.log.size()) < size);
    // The longest resting session, and no other.
    expect((await test.log.find("first"))?.floor).toBeGreaterThan(0);
    expect((await test.log.find("second"))?.floor).toBe(0);

    await test.restart(optionsOf({ keepBytes: 1 }));
    await until(async () => (await isGone("first")) && isGone("second"));
    expect(await test.log.find("waits")).toMatchObject({ floor: 0 });
    await test.restart(optionsOf(undefined));
    expect((await answer("waits")).status).toBe("idle");
  });

  it("trims no further than the size asks for", async () => {
    test = await openEngine(optionsOf(undefined));
    await test.engine.create("s", SCRIPTED);
    for (let turn = 0; turn < 8; turn += 1)
      await runTurn(test, "s", script({ say: "x".repeat(200_000), chunks: 1 }));
    const turns = async (): Promise<number> => {
      const { floor } = await rowOf("s");
      const types = new Set(["turn.ended"] as const);
      return (await test.log.read("s", { after: floor, limit: 100, types })).length;
    };
    const size = await test.log.size();
    await test.restart(optionsOf({ keepBytes: size - 1 }));
    await until(async () => (await test.log.size()) < size);
    expect(await turns()).toBe(7);
    await test.restart(optionsOf({ keepBytes: Math.floor(size / 2) }));
    await until(async () => (await test.log.size()) <= size / 2);
    expect(await turns()).toBeGreaterThanOrEqual(3);
  });

  it("does not run without a limit or a ttl", async () => {
    let asked = 0;
    test = await openEngine(optionsOf(undefined));
    await test.engine.create("s", SCRIPTED);
    const { log } = test;
    const resting = log.resting.bind(log);
    Object.assign(log, {
      resting: (page: Parameters<typeof resting>[0]) => {
        asked += 1;
        return resting(page);
      },
    });
    await runTurn(test, "s", script({ say: "hi" }));
    expect(asked).toBe(0);
    await test.engine.create("t", { ...SCRIPTED, ttl: 1 });
    await until(async () => (await isGone("t")) && asked > 0);
  });

  it("finds the end of a log's trimmable part", async () => {
    test = await openEngine(optionsOf(undefined));
    const { engine, log } = test;
    await engine.create("s", SCRIPTED);
    const ends: number[] = [];
    for (let turn = 0; turn < 3; turn += 1)
      ends.push((await runTurn(test, "s", script({ say: "hi" }))).sequence);
    const row = await rowOf("s");
    const [one = 0, two = 0, three = 0] = ends;
    const cuts: number[] = [];
    for (const through of [0, one - 1, one, two - 1, two, three, row.head])
      cuts.push(await findTrimPoint(log, row, through));
    expect(cuts).toEqual([0, 0, one, one, two, two, two]);
    for (const sequence of [1, one, row.head]) {
      const [stored] = await log.read("s", { after: sequence - 1, limit: 1 });
      const time = Date.parse((JSON.parse(stored?.body ?? "") as SluiceEvent).time);
      const all = await log.read("s", { after: 0, limit: 1000 });
      const older = all.filter(({ body }) => Date.parse((JSON.parse(body) as SluiceEvent).time) < time);
      expect(await lastEventBefore(log, row, time)).toBe(older.length);
    }
    expect(await lastEventBefore(log, row, Date.now() + LATER)).toBe(row.head);
  });
});

async function answer(id: string): Promise<{ status: string }> {
  const [asked] = (await test.engine.info(id)).pendingActions;
  const { eventCount } = await test.engine.info(id);
  await test.engine.resolveQuestion(id, asked?.id ?? "", { answers: [["yes"]] });
  await waitFor(test.log, id, "turn.ended", { after: eventCount });
  return test.engine.info(id);
}
