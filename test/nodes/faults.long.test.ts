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
import { openWire, type Wire, type WireMode } from "../support/wire.ts";
import { violations } from "./history.ts";
import { isAlive, KEY, TOKEN } from "./node-bench.ts";

const { bin, reason } = requirePostgres();
const FAULTS = Number(process.env["SLUICE_NODE_FAULTS"] ?? 10);
const SESSIONS = 4;
const LEASE_SECONDS = 3;
/** Longer than a lease: the others take over meanwhile. */
const LONG_MS = 4_500;
const SHORT_MS = 700;

/** In the order in which they come; the nodes take turns. `database` and `peers` name the wire that is disturbed. */
const PLAN = [
  "kill",
  "database slow",
  "database deaf",
  "backends",
  "peers refuse",
  "database hold long",
  "database refuse",
  "peers hole",
  "crash",
  "database hole",
  "kill",
  "database hold",
  "peers slow",
  "database deaf",
  "freeze long",
  "backends",
  "peers hold",
  "database refuse long",
  "freeze",
  "database hold",
] as const;
type Fault = (typeof PLAN)[number];

describe.skipIf(bin === undefined)(
  reason ?? "three nodes under faults",
  { timeout: 240_000 + FAULTS * 10_000 },
  () => {
    let postgres: TestPostgres;
    const servers: TestServer[] = [];
    /** Of each node, the way to the database, and the way of the other nodes to it. */
    const wires = new Map<TestServer, Record<"database" | "peers", Wire>>();
    beforeAll(async () => {
      postgres = await startPostgres(bin ?? "");
      const url = await postgres.createDatabase();
      for (const name of ["a", "b", "c"]) {
        const database = await openWire(postgres.port);
        const peers = await openWire(0);
        const address = new URL(url);
        address.port = String(database.port);
        const env = { SLUICE_DATABASE: address.href, SLUICE_SEAL_KEY: KEY, SLUICE_TOKEN: TOKEN };
        const own = ["--node", name, "--lease", String(LEASE_SECONDS)];
        const advertise = ["--advertise", `http://127.0.0.1:${peers.port}`];
        const toOwn = (port: number): void => peers.lead(port);
        const server = await startServer({ env, args: [...own, ...advertise], onPort: toOwn });
        servers.push(server);
        wires.set(server, { database, peers });
      }
    }, 120_000);
    afterAll(async () => {
      for (const server of servers) {
        if (isAlive(server.pid)) process.kill(server.pid, "SIGCONT");
        await server.close();
      }
      for (const { database, peers } of wires.values()) {
        await database.close();
        await peers.close();
      }
      await postgres?.stop();
    }, 120_000);

    const frozen = new Set<number>();
    const revivals = new Map<TestServer, Promise<void>>();
    const disturb = async (server: TestServer, kind: Fault): Promise<void> => {
      const ms = kind.endsWith("long") ? LONG_MS : SHORT_MS;
      const [what, mode] = kind.split(" ") as [string, WireMode | undefined];
      if (what === "kill") {
        await server.kill();
        await sleep(ms);
      } else if (what === "freeze") {
        const { pid } = server;
        frozen.add(pid);
        process.kill(pid, "SIGSTOP");
        await sleep(ms);
        process.kill(pid, "SIGCONT");
        frozen.delete(pid);
      } else if (what === "crash") {
        await postgres.kill();
        await postgres.start();
      } else if (what === "backends") {
        await postgres
          .admin()
          .unsafe("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sluice'");
      } else {
        const wire = wires.get(server)?.[what as "database" | "peers"];
        wire?.set(mode as WireMode);
        await sleep(ms);
        wire?.set("pass");
      }
      await sleep(200);
      // The next fault comes while this node starts.
      const revival = revive(server, { isGone: kind.endsWith("long") });
      revival.catch(() => {});
      revivals.set(server, revival);
    };

    it("loses, repeats and reorders nothing while nodes are killed, frozen and restarted", async () => {
      const any = (): TestServer => {
        const up = servers.filter(({ pid }) => isAlive(pid) && !frozen.has(pid));
        return (up[Math.floor(Math.random() * up.length)] ?? servers[0]) as TestServer;
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
        const server = servers[fault % servers.length] as TestServer;
        const kind = PLAN[fault % PLAN.length] as Fault;
        await revivals.get(server);
        await revive(server);
        await disturb(server, kind);
        if (process.env["SLUICE_NODE_FAULTS"]) process.stderr.write(`${fault + 1} ${kind}\n`);
      }
      for (const server of servers) await revivals.get(server);
      for (const server of servers) await revive(server);
      over.abort();
      await Promise.all(writing);
      const runs = await running;
      const { id: managedId, sent } = await managed;

      for (const id of ids) {
        const isIdle = async (): Promise<boolean> => {
          const info = await persist(() => any().client.sessions.get(id));
          return info.status === "idle" && info.queued === 0;
        };
        await expect.poll(isIdle, { timeout: 60_000, interval: 200 }).toBe(true);
        // A reader that is at the head already waits for one more event.
        heads.set(id, (await any().client.sessions.get(id)).eventCount + 1);
        await any().client.sessions.update(id, { title: "the end" });
      }
      await Promise.all(reading);
      for (const id of ids) {
        const stored = await persist(() => any().client.getEvents(id, { extensions: true }));
        const keys = acknowledged.get(id) ?? [];
        expect(keys.length).toBeGreaterThan(0);
        expect(violations({ keys, stored, seen: seen.get(id) ?? [] })).toEqual([]);
        expectLawful(stored);
        for (const server of servers) {
          // A busy machine may have cost it its lease.
          await revive(server);
          const there = await persist(() => server.client.getEvents(id, { extensions: true }));
          expect(there).toEqual(stored);
        }
      }
      expect(sent).toBeGreaterThan(0);
      expect(runs).toBeGreaterThan(0);
      expectLawful(await persist(() => any().client.getEvents("thread", { extensions: true })));
      const told: string[] = [];
      const { beta } = new Anthropic({ baseURL: `${any().url}/anthropic`, apiKey: TOKEN });
      for await (const event of beta.sessions.events.list(managedId)) told.push(event.id);
      expect(new Set(told).size).toBe(told.length);
    });
  },
);

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

/**
 * Starts a node again that has ended, as a supervisor does: on a busy machine it may lose its lease once more while it
 * starts. A node that was away for longer than its lease ends by itself.
 */
async function revive(server: TestServer, { isGone = false } = {}): Promise<void> {
  if (isGone) await expect.poll(() => isAlive(server.pid), { timeout: 60_000 }).toBe(false);
  for (const deadline = Date.now() + 90_000; !isAlive(server.pid);)
    await server.start().catch((error: unknown) => {
      if (Date.now() > deadline) throw error;
    });
}
