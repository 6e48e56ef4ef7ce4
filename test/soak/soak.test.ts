import { readdir } from "node:fs/promises";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { SluiceClientError } from "../../src/client/index.ts";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { expectLawful } from "../support/laws.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { Chance } from "./chance.ts";
import { findProcesses, killOne } from "./faults.ts";
import { toScript } from "./steps.ts";

/** `npm run soak -- --minutes N [--seed S]`: many sessions through random faults, and what must hold afterwards. */
const MINUTES = Number(process.env["SLUICE_SOAK_MINUTES"] ?? "0");
const SEED = Number(process.env["SLUICE_SOAK_SEED"] ?? Date.now() % 2 ** 31);
const SESSIONS_AT_ONCE = 12;
const SETTLE_MS = 180_000;
if (!(MINUTES > 0))
  console.warn("The soak is skipped: it takes its minutes from npm run soak -- --minutes N.");

/** One session of the soak, and all that was promised to its client. */
interface Soaked {
  readonly id: string;
  /** The turns of the inputs that were accepted. */
  readonly accepted: string[];
  /** What a reader that stayed through all faults was told. */
  readonly heard: SluiceEvent[];
  readonly reader: AbortController;
  reading: Promise<void>;
}

it.skipIf(!(MINUTES > 0))(
  `nothing is lost, doubled or left in ${MINUTES} minutes of faults`,
  async () => {
    console.log(`seed ${SEED}: SLUICE_SOAK_SEED=${SEED} repeats the choices`);
    const server = await startServer();
    const soaked: Soaked[] = [];
    const faults: Record<string, number> = {};
    const until = Date.now() + MINUTES * 60_000;
    const isOver = (): boolean => Date.now() > until;
    let isUp = Promise.resolve();
    const clients = Array.from({ length: SESSIONS_AT_ONCE }, (_, n) =>
      drive(server, new Chance(SEED + n + 1), { soaked, isOver, prefix: `s${n}` }),
    );
    const chance = new Chance(SEED);
    while (!isOver()) {
      await sleep(300 + chance.below(1_500));
      const fault = chance.pick(["server", "server", "agent", "agent", "relay", "bridge", "stop"] as const);
      if (fault === "server" || fault === "stop") {
        isUp = (fault === "server" ? server.kill() : server.stop()).then(() => server.start());
        await isUp;
      } else if (!(await killOne(server, fault, chance))) continue;
      faults[fault] = (faults[fault] ?? 0) + 1;
    }
    await isUp;
    await Promise.all(clients);
    console.log(
      `${soaked.length} sessions, ${soaked.flatMap((one) => one.accepted).length} inputs, faults:`,
      faults,
    );
    for (const one of soaked) await check(server, one);
    await checkNothingLeft(server);
  },
  MINUTES * 60_000 + 2 * SETTLE_MS + 60_000,
);

/** Sessions one after the other: messages, interrupts, pauses and commands, whatever the server goes through meanwhile. */
async function drive(
  server: TestServer,
  chance: Chance,
  { soaked, isOver, prefix }: { soaked: Soaked[]; isOver: () => boolean; prefix: string },
): Promise<void> {
  for (let n = 0; !isOver(); n++) {
    const id = `${prefix}-${n}`;
    await insist(() => server.client.sessions.create(id, { agent: "scripted" }), ["session_already_exists"]);
    const one: Soaked = {
      id,
      accepted: [],
      heard: [],
      reader: new AbortController(),
      reading: Promise.resolve(),
    };
    one.reading = listen(server, one);
    soaked.push(one);
    for (let turns = 1 + chance.below(4); turns > 0 && !isOver(); turns--) {
      const message = toScript(chance);
      const idempotencyKey = `${id}-${turns}`;
      const sent = await insist(() => server.client.sendMessage(id, message, { idempotencyKey }));
      if (sent) one.accepted.push(sent.turnId);
      await sleep(chance.below(1_500));
      if (chance.is(0.2)) await insist(() => server.client.interrupt(id), ANY);
      if (chance.is(0.1)) await insist(() => server.client.pause(id), ANY);
      if (chance.is(0.2)) await insist(() => server.client.runCommand(id, { command: "echo hi" }), ANY);
      await insist(() => server.client.resume(id), ANY);
    }
    if (chance.is(0.1)) await insist(() => server.client.terminate(id), ANY);
  }
}

/** What a client may be told at any moment without anything being wrong. */
const ANY = ["session_busy", "session_ended", "capability_missing", "invalid_request", "internal"];

/** Asks again until the server answers: it may be dead, starting or leaving at any moment. */
async function insist<T>(call: () => Promise<T>, harmless: readonly string[] = []): Promise<T | undefined> {
  for (const deadline = Date.now() + SETTLE_MS; ; await sleep(100)) {
    try {
      return await call();
    } catch (error) {
      const code = error instanceof SluiceClientError ? error.code : undefined;
      if (code !== undefined && harmless.includes(code)) return undefined;
      if (code === "session_ended") return undefined;
      const isPassing = !(error instanceof SluiceClientError) || error.retryable;
      if (!isPassing || Date.now() > deadline) throw error;
    }
  }
}

async function listen(server: TestServer, { id, heard, reader }: Soaked): Promise<void> {
  try {
    const { signal } = reader;
    for await (const event of server.client.subscribe(id, { extensions: true, signal })) heard.push(event);
  } catch (error) {
    if (!reader.signal.aborted) throw error;
  }
}

async function check(server: TestServer, one: Soaked): Promise<void> {
  const { id, accepted, heard, reader } = one;
  const { client } = server;
  await expect
    .poll(async () => (await client.sessions.get(id)).status, {
      timeout: SETTLE_MS,
      message: `${id} comes to rest`,
    })
    .toMatch(/^(idle|ended)$/);
  const events = await client.getEvents(id, { extensions: true });
  const about = `${id}: ${events
    .map(({ type }) => type)
    .join(" ")
    .slice(-2_000)}`;
  expectLawful(events);
  for (const turn of accepted) {
    const ended = events.filter((event) => event.type === "turn.ended" && event.turn_id === turn);
    expect(ended.length, `turn ${turn} ends once in ${about}`).toBe(1);
  }
  const inputs = events.filter(({ type }) => type === "input.accepted").length;
  expect(inputs, `inputs of ${about}`).toBe(accepted.length);
  await expect.poll(() => heard.length, { timeout: 30_000 }).toBe(events.length);
  reader.abort();
  await one.reading;
  expect(heard, `what was heard live of ${about}`).toEqual(events);
}

async function checkNothingLeft(server: TestServer): Promise<void> {
  const { data } = server;
  const { sessions } = await server.client.sessions.list({ limit: 1000 });
  for (const { sessionId } of sessions) await server.client.sessions.delete(sessionId);
  for await (const { sessionId } of server.client.sessions.iterate())
    await server.client.sessions.delete(sessionId);
  await expect.poll(() => readdir(join(data, "sandboxes")), { timeout: 30_000 }).toEqual([]);
  expect((await readdir(join(data, "spools")).catch(() => [])).length).toBe(0);
  await server.stop();
  await expect.poll(() => findProcesses({ data, pid: -1 }), { timeout: 30_000 }).toEqual([]);
  expect(readFileSync("/proc/self/mounts", "utf8")).not.toContain(data);
  await server.close();
}
