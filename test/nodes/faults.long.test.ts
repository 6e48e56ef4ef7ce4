import Anthropic from "@anthropic-ai/sdk";
import { HttpAgent } from "@ag-ui/client";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SluiceClientError } from "../../src/client/index.ts";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { makeSession, message } from "../http/anthropic/session-bench.ts";
import { script } from "../support/engine.ts";
import { expectLawful } from "../support/laws.ts";
import { requirePostgres, startPostgres, type TestPostgres } from "../support/postgres.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { readFrames } from "../support/sse.ts";
import { isAlive, KEY, TOKEN } from "./node-bench.ts";

const { bin, reason } = requirePostgres();
const FAULTS = Number(process.env["SLUICE_NODE_FAULTS"] ?? 3);
const SESSIONS = 4;

/** The proof that the check can fail: histories as broken nodes would leave them. */
describe("the history check", () => {
  const whole = [accepted(1, "k1"), ended(2, "k1")];
  it("accepts a whole history", () => {
    expect(violations({ keys: ["k1"], stored: whole, seen: whole })).toEqual([]);
  });
  it.each([
    ["an acknowledged input that is lost", { keys: ["k1", "k2"], stored: whole, seen: whole }],
    ["an input that was taken twice", { keys: ["k1"], stored: [...whole, accepted(3, "k1")], seen: whole }],
    ["a turn that never ends", { keys: ["k1"], stored: whole.slice(0, 1), seen: whole.slice(0, 1) }],
    ["a gap", { keys: ["k1"], stored: [accepted(1, "k1"), ended(3, "k1")], seen: [] }],
    [
      "a reader with a repeat",
      { keys: ["k1"], stored: whole, seen: [whole[0], whole[0], whole[1]] as never },
    ],
    [
      "a reader with another event",
      { keys: ["k1"], stored: whole, seen: [whole[0], ended(2, "k9")] as never },
    ],
  ])("finds %s", (_what, history) => {
    expect(violations(history)).not.toEqual([]);
  });
});

describe.skipIf(bin === undefined)(reason ?? "three nodes under faults", { timeout: 240_000 }, () => {
  let postgres: TestPostgres;
  const servers: TestServer[] = [];
  beforeAll(async () => {
    postgres = await startPostgres(bin ?? "");
    const url = await postgres.createDatabase();
    const env = { SLUICE_DATABASE: url, SLUICE_SEAL_KEY: KEY, SLUICE_TOKEN: TOKEN };
    for (const name of ["a", "b", "c"])
      servers.push(await startServer({ env, args: ["--node", name, "--lease", "3"] }));
  }, 120_000);
  afterAll(async () => {
    for (const server of servers) {
      if (isAlive(server.pid)) process.kill(server.pid, "SIGCONT");
      await server.stop();
    }
    for (const server of servers) await server.close();
    await postgres?.stop();
  }, 120_000);

  it("loses, repeats and reorders nothing while nodes are killed, frozen and restarted", async () => {
    const down = new Set<TestServer>();
    const any = (): TestServer => {
      const up = servers.filter((server) => !down.has(server));
      return up[Math.floor(Math.random() * up.length)] as TestServer;
    };
    const over = new AbortController();
    const ids = Array.from({ length: SESSIONS }, (_, index) => `load-${index}`);
    for (const id of ids) await persist(() => any().client.sessions.create(id, { agent: "scripted" }));
    const acknowledged = new Map<string, string[]>(ids.map((id) => [id, []]));

    const writing = ids.map(async (id) => {
      for (let count = 0; !over.signal.aborted; count += 1) {
        const key = `${id}-key-${count}.`;
        const text = script({ say: `answer to ${key}` }, { shell: "echo work" });
        await persist(() => any().client.sendMessage(id, text, { idempotencyKey: key }));
        acknowledged.get(id)?.push(key);
        await sleep(150);
      }
    });

    const seen = new Map<string, SluiceEvent[]>(ids.map((id) => [id, []]));
    const heads = new Map<string, number>();
    const reading = ids.map(async (id) => {
      const events = seen.get(id) ?? [];
      while (!(heads.has(id) && (events.at(-1)?.sequence ?? 0) >= (heads.get(id) ?? 0))) {
        const take = ({ data }: { data: string }): boolean => {
          events.push(JSON.parse(data) as SluiceEvent);
          return (events.at(-1)?.sequence ?? 0) >= (heads.get(id) ?? Infinity);
        };
        // Each connection may be to another node, and breaks with it.
        const query = { after: events.at(-1)?.sequence ?? 0, until: take, cutAfter: 40 };
        await readFrames(any(), id, query).catch(() => sleep(100));
      }
    });

    const managed = (async () => {
      const clientOf = (): Anthropic["beta"] =>
        new Anthropic({ baseURL: `${any().url}/anthropic`, apiKey: TOKEN, maxRetries: 0 }).beta;
      const { id } = await persist(() => makeSession({ beta: clientOf() }));
      let sent = 0;
      while (!over.signal.aborted) {
        const events = [message(script({ say: `managed ${sent}` }))];
        const isDone = await clientOf()
          .sessions.events.send(id, { events })
          .then(() => true)
          .catch(() => false);
        if (isDone) sent += 1;
        await sleep(300);
      }
      return { id, sent };
    })();

    const running = (async () => {
      let runs = 0;
      for (let count = 0; !over.signal.aborted; count += 1) {
        const agent = new HttpAgent({
          url: `${any().url}/ag-ui/scripted`,
          threadId: "thread",
          headers: { authorization: `Bearer ${TOKEN}` },
        });
        agent.addMessage({ id: `m${count}`, role: "user", content: script({ say: `run ${count}` }) });
        const isDone = await agent.runAgent({ runId: `run-${count}` }).then(
          () => JSON.stringify(agent.messages).includes(`run ${count}`),
          () => false,
        );
        if (isDone) runs += 1;
        await sleep(200);
      }
      return runs;
    })();

    for (let fault = 0; fault < FAULTS; fault += 1) {
      const server = any();
      down.add(server);
      if (fault % 3 === 2) {
        // Past its lease: it has to end by itself when it wakes.
        process.kill(server.pid, "SIGSTOP");
        await sleep(5_000);
        process.kill(server.pid, "SIGCONT");
        await expect.poll(() => isAlive(server.pid), { timeout: 30_000 }).toBe(false);
      } else await server.kill();
      await sleep(500);
      await server.start();
      down.delete(server);
      await sleep(1_500);
    }
    over.abort();
    await Promise.all(writing);
    const runs = await running;
    const { id: managedId, sent } = await managed;

    for (const id of ids) {
      const isIdle = async (): Promise<boolean> => {
        const info = await any().client.sessions.get(id);
        return info.status === "idle" && info.queued === 0;
      };
      await expect.poll(isIdle, { timeout: 60_000, interval: 200 }).toBe(true);
      // A reader that is at the head already waits for one more event.
      heads.set(id, (await any().client.sessions.get(id)).eventCount + 1);
      await any().client.sessions.update(id, { title: "the end" });
    }
    await Promise.all(reading);
    for (const id of ids) {
      const stored = await any().client.getEvents(id, { extensions: true });
      const keys = acknowledged.get(id) ?? [];
      expect(keys.length).toBeGreaterThan(0);
      expect(violations({ keys, stored, seen: seen.get(id) ?? [] })).toEqual([]);
      expectLawful(stored);
      for (const server of servers)
        expect(await server.client.getEvents(id, { extensions: true })).toEqual(stored);
    }
    expect(sent).toBeGreaterThan(0);
    expect(runs).toBeGreaterThan(0);
    expectLawful(await any().client.getEvents("thread", { extensions: true }));
    const told: string[] = [];
    const { beta } = new Anthropic({ baseURL: `${any().url}/anthropic`, apiKey: TOKEN });
    for await (const event of beta.sessions.events.list(managedId)) told.push(event.id);
    expect(new Set(told).size).toBe(told.length);
  });
});

interface History {
  /** The inputs that were acknowledged, by words that only they contain. */
  readonly keys: readonly string[];
  readonly stored: readonly SluiceEvent[];
  /** The events as a live reader got them. */
  readonly seen: readonly SluiceEvent[];
}

/** The ways in which a history is not one that a single, immortal server would have made. */
function violations({ keys, stored, seen }: History): string[] {
  const found: string[] = [];
  for (const [index, { sequence }] of stored.entries())
    if (sequence !== index + 1) found.push(`the event ${index + 1} of the log has the sequence ${sequence}`);
  const inputs = stored.filter(({ type }) => type === "input.accepted");
  for (const key of keys) {
    const ofKey = inputs.filter((event) => JSON.stringify(event.data).includes(key));
    if (ofKey.length !== 1) found.push(`the input ${key} is in the log ${ofKey.length} times`);
    const turn = ofKey[0]?.turn_id;
    const ends = stored.filter(({ type, turn_id: id }) => type === "turn.ended" && id === turn);
    if (ofKey.length > 0 && ends.length !== 1) found.push(`the turn of ${key} ended ${ends.length} times`);
  }
  for (const [index, event] of seen.entries())
    if (JSON.stringify(event) !== JSON.stringify(stored[index]))
      found.push(`the reader's event ${index + 1} is not that of the log`);
  return found;
}

/** Repeats a call as a client does, until a node answers. */
async function persist<T>(call: () => Promise<T>): Promise<T> {
  for (const deadline = Date.now() + 60_000; ; await sleep(100)) {
    try {
      return await call();
    } catch (error) {
      // A refusal does not pass.
      const isFinal = error instanceof SluiceClientError && !error.retryable && error.status >= 400;
      if (isFinal || Date.now() > deadline) throw error;
    }
  }
}

function accepted(sequence: number, words: string): SluiceEvent {
  return { type: "input.accepted", sequence, turn_id: `t${words}`, data: { content: words } } as never;
}

function ended(sequence: number, words: string): SluiceEvent {
  return { type: "turn.ended", sequence, turn_id: `t${words}`, data: {} } as never;
}
