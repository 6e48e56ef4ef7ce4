import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parse } from "yaml";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../../src/contract/index.ts";
import type { KubeApi } from "../../../src/sandbox/kubernetes/api.ts";
import { toPodName } from "../../../src/sandbox/kubernetes/pod-spec.ts";
import { createKubernetesProvider } from "../../../src/sandbox/kubernetes/provider.ts";
import type { Sandbox } from "../../../src/sandbox/port.ts";
import { script } from "../../support/engine.ts";
import { expectLawful } from "../../support/laws.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { expectEverythingOnce } from "../remote/matrix.ts";
import { makeFolder } from "../remote/workbench.ts";
import { apply, openApi, readManifests } from "./manifests.ts";
import { NO_CLUSTER, openCluster, type Cluster } from "./lab.ts";

const LINES = 400;
const ALL = Array.from({ length: LINES }, (_, n) => `line ${n} `);
const COUNT = script(
  { say: "starting" },
  { shell: `i=0; while [ $i -lt ${LINES} ]; do echo "line $i "; i=$((i+1)); sleep 0.01; done` },
  { write: { path: "made.txt", content: "far" } },
  { say: "finished" },
);

/** The runner is told from process 1, whose command line has it too. */
const KILL_RUNNER = `node -e 'const fs = require("fs"); for (const pid of fs.readdirSync("/proc")) { try { const words = fs.readFileSync("/proc/" + pid + "/cmdline", "utf8").split("\\0"); if (words[0] === "node" && words[2] === "listen") process.kill(Number(pid), "SIGKILL"); } catch {} }'`;
const ignore = (): void => {};

async function untilReached<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await work();
    } catch (error) {
      if (tries > 300) throw error;
      await sleep(100);
    }
  }
}

/** A kubeconfig of the account `sluice`. */
async function accountConfig(api: KubeApi, env: Record<string, string>): Promise<object> {
  type Secret = { metadata: { annotations?: Record<string, string> }; data?: { token?: string } };
  const token = await untilReached(async () => {
    const { items } = await api.call<{ items: Secret[] }>("GET", api.path("secrets"));
    const mine = items.find(
      ({ metadata }) => metadata.annotations?.["kubernetes.io/service-account.name"] === "sluice",
    );
    if (!mine?.data?.token) throw new Error("the account has no token yet");
    return Buffer.from(mine.data.token, "base64").toString();
  });
  const config = parse(await readFile(env["KUBECONFIG"]!, "utf8")) as { users: { user: object }[] };
  config.users[0]!.user = { token };
  return config;
}

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

    it("has every line and every input once while the runner, the node's kubelet, the API server and the server are killed", async () => {
      const records = await makeFolder();
      const open = () => createKubernetesProvider({ records, env: cluster.env });
      const sandbox = await open().create({ id: "sbx_pod", session: "s" }, { spools: "", epoch: 1 });
      let last: Sandbox = sandbox;
      await expectEverythingOnce(sandbox, [
        () => sandbox.exec(KILL_RUNNER).then(ignore, ignore),
        () => cluster.restart?.("kubelet"),
        () => cluster.restart?.("apiserver"),
        async () => (last = (await untilReached(() => open().connect("sbx_pod", { spools: "", epoch: 2 })))!),
      ]);
      await expect(sandbox.exec("true")).rejects.toMatchObject({ code: "fenced" });
      await last.destroy();
      expect(await open().connect("sbx_pod")).toBeUndefined();
    });

    it("needs the rights of role.yaml and no more, says which are missing, and its pods survive an eviction", async () => {
      const api = await openApi(cluster.env);
      for (const manifest of readManifests()) await apply(api, manifest, { dryRun: true });
      const [account, role, binding] = readManifests("role.yaml");
      await apply(api, account!);
      const folder = await makeFolder();
      const kubeconfig = join(folder, "account.json");
      await writeFile(kubeconfig, JSON.stringify(await accountConfig(api, cluster.env)));
      const env = { ...cluster.env, KUBECONFIG: kubeconfig };
      const provider = createKubernetesProvider({ records: folder, env });
      expect(await provider.detect()).toMatchObject({
        available: false,
        reason: expect.stringContaining("the account may not: create pods"),
        remedy: "kubectl apply -f deploy/kubernetes/role.yaml",
      });
      await apply(api, role!);
      await apply(api, binding!);
      await expect.poll(() => provider.detect(), { timeout: 30_000 }).toEqual({ available: true });
      for (const manifest of readManifests("pod-disruption-budget.yaml")) await apply(api, manifest);
      const sandbox = await provider.create({ id: "sbx_role" }, { spools: "", epoch: 1 });
      expect((await sandbox.exec("id -u")).stdout).toBe("1000\n");
      const pod = toPodName("sbx_role");
      const eviction = { apiVersion: "policy/v1beta1", kind: "Eviction", metadata: { name: pod } };
      const evict = () => api.call("POST", api.path(`pods/${pod}/eviction`), eviction);
      await expect.poll(() => evict().catch(({ status }: { status: number }) => status)).toBe(429);
      expect(await sandbox.state!()).toBe("running");
      await sandbox.destroy();
    });

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
