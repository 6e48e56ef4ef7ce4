import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../../src/contract/index.ts";
import { createScriptedModel } from "../../../src/model/index.ts";
import { requireAgent } from "../../support/agents.ts";
import { script } from "../../support/engine.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { NO_SSHD, startSshd, type Sshd } from "./sshd.ts";
import { onCleanup } from "./workbench.ts";

async function open(env: Record<string, string> = {}): Promise<{ sshd: Sshd; server: TestServer }> {
  const sshd = await startSshd();
  const server = await startServer({ env: { ...sshd.env, ...env } });
  onCleanup(() => server.close());
  return { sshd, server };
}

async function until(
  server: TestServer,
  session: string,
  is: (event: SluiceEvent) => boolean,
  after = 0,
): Promise<SluiceEvent[]> {
  const events: SluiceEvent[] = [];
  for await (const event of server.client.subscribe(session, { after, extensions: true })) {
    events.push(event);
    if (is(event)) return events;
  }
  throw new Error("the stream ended");
}

const ended = (event: SluiceEvent): boolean => event.type === "turn.ended";

async function turn(server: TestServer, session: string, ...steps: unknown[]): Promise<SluiceEvent[]> {
  const { eventCount } = await server.client.sessions.get(session);
  await server.client.sendMessage(session, script(...steps));
  return until(server, session, ended, eventCount);
}

const text = async (server: TestServer, session: string, path: string): Promise<string> => {
  const response = await server.fetch(`/v1/fs/file?session=${session}&path=${path}`);
  return response.status === 200 ? response.text() : String(response.status);
};

const changes = (events: readonly SluiceEvent[]): string[] =>
  events.flatMap((event) =>
    event.type === "file.changed" ? [`${event.data.type} ${event.data.path.split("/").pop()}`] : [],
  );

const WEATHER = { name: "weather", description: "The weather of a city", inputSchema: { type: "object" } };

describe.skipIf(NO_SSHD !== undefined)(
  `the far side of a sandbox by SSH${NO_SSHD ? ` (${NO_SSHD})` : ""}`,
  { timeout: 240_000 },
  () => {
    it("tells changes and diffs, is checkpointed, goes on here and there, and serves its ports", async () => {
      const { sshd, server } = await open();
      const { client } = server;
      await client.sessions.create("far", { agent: "scripted", sandbox: sshd.url });
      const first = await turn(
        server,
        "far",
        { shell: "git init -q . && git config user.email a@b && git config user.name a" },
        { write: { path: "a.txt", content: "one\n" } },
        { shell: "git add a.txt && git commit -qm one && echo two >> a.txt && mkdir -p deep/er" },
        { shell: "head -c 3000000 /dev/urandom > deep/er/large && ln -s ../a.txt deep/link" },
      );
      expect(changes(first)).toEqual(expect.arrayContaining(["create a.txt", "create large", "create link"]));
      expect(first.find((event) => event.type === "workspace.diffed")?.data).toMatchObject({
        diff: expect.stringContaining("+two"),
      });

      // Changes while no server ran, and while the runner was killed, come once.
      const { eventCount } = await client.sessions.get("far");
      await server.kill();
      for (const pid of sshd.runners()) process.kill(pid, "SIGKILL");
      const { workspace } = findSandbox(sshd);
      await writeFile(join(workspace, "between.txt"), "by another hand");
      await server.start();
      const second = await turn(server, "far", { write: { path: "b.txt", content: "three" } });
      const all = await until(server, "far", ended, eventCount);
      expect(changes(all)).toEqual(["create between.txt", "create b.txt"]);
      expect(second.at(-1)?.data).toMatchObject({ status: "completed" });

      // A checkpoint from there, another by difference, and restores there and here.
      const one = await client.checkpoints.create("far", { comment: "one" });
      await turn(server, "far", { write: { path: "b.txt", content: "four" } }, { shell: "rm a.txt" });
      const two = await client.checkpoints.create("far");
      expect(two.hash).not.toBe(one.hash);
      await client.checkpoints.restore("far", one.id);
      expect(await text(server, "far", "b.txt")).toBe("three");
      expect(await text(server, "far", "a.txt")).toBe("one\ntwo\n");
      await client.sessions.create("near", { agent: "scripted", sandbox: "local" });
      await client.checkpoints.restore("near", two.id);
      expect(await text(server, "near", "b.txt")).toBe("four");
      expect(await text(server, "near", "a.txt")).toBe("404");
      expect(await text(server, "near", "between.txt")).toBe("by another hand");
      await turn(server, "near", { write: { path: "c.txt", content: "from here" } });
      const three = await client.checkpoints.create("near");
      await client.checkpoints.restore("far", three.id);
      expect(await text(server, "far", "c.txt")).toBe("from here");
      const large = await server.fetch("/v1/fs/file?session=far&path=deep/er/large");
      const local = await server.fetch("/v1/fs/file?session=near&path=deep/er/large");
      const [there, here] = [await large.arrayBuffer(), await local.arrayBuffer()].map((bytes) =>
        Buffer.from(bytes),
      );
      expect([there?.length, there?.equals(here as Buffer)]).toEqual([3_000_000, true]);

      // A fork of the session on the other machine.
      await client.sessions.create("twin", {
        agent: "scripted",
        sandbox: sshd.url,
        fork: { session: "far" },
      });
      await turn(server, "twin", { say: "here" });
      expect(await text(server, "twin", "c.txt")).toBe("from here");

      // A port of the other machine.
      const web = `const s = require("http").createServer((q, r) => r.end("far " + q.url)).listen(0, "127.0.0.1", () => require("fs").writeFileSync("port", String(s.address().port)))`;
      await turn(server, "far", { shell: `node -e '${web}' > /dev/null 2>&1 & sleep 1` });
      const port = await text(server, "far", "port");
      const served = await server.fetch(`/v1/sessions/far/ports/${port}/hello`);
      expect([served.status, await served.text()]).toEqual([200, "far /hello"]);

      for (const network of ["none", "loopback", { allow: ["example.com"] }]) {
        const spec = { agent: "scripted", sandbox: sshd.url, network: network as "none" };
        await expect(client.sessions.create(`net-${randomBytes(4).toString("hex")}`, spec)).rejects.toThrow(
          /cannot keep an agent from any host/,
        );
      }
    });

    it("calls the application's tools once, through kills of the server and of the runner", async () => {
      const { sshd, server } = await open();
      await server.client.sessions.create("s", {
        agent: "scripted",
        sandbox: sshd.url,
        tools: { custom: [WEATHER] },
      });
      for (const [round, kill] of [
        async () => {},
        async () => {
          await server.kill();
          await server.start();
        },
        async () => {
          for (const pid of sshd.runners()) process.kill(pid, "SIGKILL");
        },
      ].entries()) {
        const { eventCount } = await server.client.sessions.get("s");
        const call = { mcp: { server: "sluice", tool: "weather", input: { city: round } } };
        await server.client.sendMessage("s", script(call, { say: "after" }));
        await until(server, "s", (event) => event.type === "turn.waiting", eventCount);
        await kill();
        const [pending] = (await server.client.sessions.get("s")).pendingActions;
        const reply = await server.fetch(`/v1/sessions/s/tools/${pending?.id}/reply`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ output: `sunny ${round}` }),
        });
        expect(reply.status).toBe(204);
        const events = await until(server, "s", ended, eventCount);
        expect(events.filter((event) => event.type === "tool.requested")).toHaveLength(1);
        const results = JSON.stringify(events.filter((event) => event.type === "item.completed"));
        expect(results.split(`"output":"sunny ${round}"`).length - 1).toBe(1);
        expect(events.at(-1)?.data).toMatchObject({ status: "completed" });
      }
    });

    it("runs a real agent whose key stays here, through a kill of the server", async ({ skip }) => {
      const claude = requireAgent("claude");
      if (claude.path === undefined) return skip(claude.reason);
      const model = await createScriptedModel();
      onCleanup(() => model.close());
      const key = `sk-ant-canary-${randomBytes(16).toString("hex")}`;
      const { sshd, server } = await open({ ANTHROPIC_API_KEY: key, ANTHROPIC_BASE_URL: model.url });
      const folders = [dirname(claude.path), dirname(process.execPath)].join(":");
      await writeFile(join(sshd.home, ".profile"), `PATH=${folders}:$PATH\n`);
      const spec = { agent: "claude", sandbox: sshd.url, permissionMode: "bypass" } as const;
      await server.client.sessions.create("s", spec);
      const steps = [{ shell: "echo begun; sleep 4; echo over > made.txt" }, { say: "all done" }];
      await server.client.sendMessage("s", `#script ${JSON.stringify(steps)}`);
      await until(server, "s", (event) => event.type === "item.started" && isTool(event));
      await server.kill();
      await server.start();
      const events = await until(server, "s", ended);
      expect(events.at(-1)?.data).toMatchObject({ status: "completed" });
      expect(JSON.stringify(events)).toContain("all done");
      const started = events.find((event) => event.type === "process.started");
      expect(started?.data).toMatchObject({ credential: "outside", gateway: true });
      expect(events.some((event) => event.type === "model.ended")).toBe(true);
      expect(await text(server, "s", "made.txt")).toBe("over\n");
      expect(spawnSync("grep", ["-rla", "--", key, sshd.home]).stdout.toString()).toBe("");
    });
  },
);

function isTool(event: SluiceEvent): boolean {
  return JSON.stringify(event.data).includes("tool_call");
}

function findSandbox(sshd: Sshd): { workspace: string } {
  const root = join(sshd.home, ".sluice/runner/sandboxes");
  const name = readdirSync(root).find((entry) => !entry.startsWith(".")) ?? "";
  return { workspace: join(root, name, "workspace") };
}
