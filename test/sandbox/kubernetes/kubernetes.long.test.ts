import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../../src/contract/index.ts";
import { script } from "../../support/engine.ts";
import { expectLawful } from "../../support/laws.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { NO_CLUSTER, openCluster, type Cluster } from "./lab.ts";

const LINES = 400;
const ALL = Array.from({ length: LINES }, (_, n) => `line ${n} `);
const COUNT = script(
  { say: "starting" },
  { shell: `i=0; while [ $i -lt ${LINES} ]; do echo "line $i "; i=$((i+1)); sleep 0.01; done` },
  { write: { path: "made.txt", content: "far" } },
  { say: "finished" },
);

const ended = (event: SluiceEvent): boolean => event.type === "turn.ended";

async function until(
  server: TestServer,
  session: string,
  is: (event: SluiceEvent) => boolean,
): Promise<SluiceEvent[]> {
  const events: SluiceEvent[] = [];
  for await (const event of server.client.subscribe(session, { extensions: true })) {
    events.push(event);
    if (is(event)) return events;
  }
  throw new Error("the stream ended");
}

function printed(events: readonly SluiceEvent[]): string[] {
  const deltas = events.filter((event) => event.type === "item.delta").map((event) => event.data.delta);
  return deltas.join("").match(/line \d+ /g) ?? [];
}

describe.skipIf(NO_CLUSTER !== undefined)(
  `sandboxes on Kubernetes${NO_CLUSTER ? ` (${NO_CLUSTER})` : ""}`,
  { timeout: 240_000 },
  () => {
    let cluster: Cluster;
    let server: TestServer;
    beforeAll(async () => {
      cluster = openCluster();
      server = await startServer({ env: cluster.env });
    }, 240_000);
    afterAll(async () => {
      await server?.close();
      cluster?.down();
    }, 120_000);

    const strikes: Record<string, () => Promise<void>> = {
      "the API server is killed, and the server, too": async () => {
        await cluster.restart?.();
        await server.kill();
        await server.start();
      },
    };
    for (const [what, strike] of Object.entries(strikes)) {
      it(`has every line and every input once when ${what}`, async () => {
        const id = `s-${Math.random().toString(36).slice(2)}`;
        const { client } = server;
        await client.sessions.create(id, { agent: "scripted", sandbox: "kubernetes" });
        await client.sendMessage(id, COUNT);
        await until(
          server,
          id,
          (event) => event.type === "item.delta" && event.data.delta.includes("line 50 "),
        );
        await strike();
        const events = await until(server, id, ended);
        expectLawful(events);
        expect(events.at(-1)?.data).toMatchObject({ status: "completed" });
        expect(printed(events)).toEqual(ALL);
        expect(events.filter((event) => event.type === "input.accepted")).toHaveLength(1);
        expect(events.filter((event) => event.type === "process.started")).toHaveLength(1);
        const ready = events.find((event) => event.type === "sandbox.ready");
        expect(ready?.data).toMatchObject({ provider: "kubernetes", isolated: true });
        expect(events.some((event) => event.type === "file.changed")).toBe(true);
        const made = await server.fetch(`/v1/fs/file?session=${id}&path=made.txt`);
        expect(await made.text()).toBe("far");
        // A laptop's session goes on in the cluster, and back.
        const taken = await client.checkpoints.create(id);
        const near = `near-${id}`;
        await client.sessions.create(near, { agent: "scripted", sandbox: "local" });
        await client.checkpoints.restore(near, taken.id);
        const copy = await server.fetch(`/v1/fs/file?session=${near}&path=made.txt`);
        expect(await copy.text()).toBe("far");
        await client.sessions.delete(id);
      });
    }

    it("refuses a restricted network by name", async () => {
      const { client } = server;
      const id = `s-${Math.random().toString(36).slice(2)}`;
      const spec = { agent: "scripted", sandbox: "kubernetes" } as const;
      await expect(client.sessions.create(id, { ...spec, network: "none" })).rejects.toThrow(
        /kubernetes cannot keep an agent from any host/,
      );
    });
  },
);
