import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Anthropic, { toFile } from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startServer, type TestServer } from "../../support/server.ts";
import { collect } from "./anthropic-bench.ts";
import { type CuttingProxy, openCuttingProxy } from "./cutting-proxy.ts";
import { history, message, ofType, text } from "./session-bench.ts";

let temporary: string;
let server: TestServer;
let proxy: CuttingProxy;
let beta: Anthropic["beta"];
beforeAll(async () => {
  temporary = await mkdtemp(join(tmpdir(), "sluice-resent-"));
  // A killed server cannot clean up its open work.
  server = await startServer({ env: { TMPDIR: temporary } });
  proxy = await openCuttingProxy(server.url);
  beta = new Anthropic({ apiKey: server.token, baseURL: `${proxy.url}/anthropic`, maxRetries: 3 }).beta;
}, 60_000);
afterAll(async () => {
  await proxy.close();
  await server.close();
  await rm(temporary, { recursive: true, force: true });
});

async function killAndStart(): Promise<void> {
  await server.kill();
  await server.start();
}

/** The server completes the requests and dies before it responds; the SDK resends by itself. */
async function unanswered<T extends readonly (() => PromiseLike<unknown>)[]>(
  ...calls: T
): Promise<{ [K in keyof T]: Awaited<ReturnType<T[K]>> }> {
  const before = proxy.resent();
  proxy.cutAnswers(calls.length, killAndStart);
  const answers = await Promise.all(calls.map((call) => call()));
  expect(proxy.resent() - before).toBe(calls.length);
  return answers as { [K in keyof T]: Awaited<ReturnType<T[K]>> };
}

const upload = () => toFile(Buffer.from("kept once"), "once.txt");
const skill = (body: string) =>
  toFile(Buffer.from(`---\nname: once\ndescription: d\n---\n${body}`), "once/SKILL.md");
const idsOf = async (list: AsyncIterable<{ id: string }>): Promise<string[]> =>
  (await collect(list)).map(({ id }) => id);

describe("H4, C8: the SDK's resend after kill -9 repeats no completed work", () => {
  const made = { agent: "", environment: "", vault: "", file: "", skill: "", session: "", far: "", work: "" };

  /** The heartbeat of a worker of a self-hosted environment. */
  const beat = (expected_last_heartbeat: string) =>
    beta.environments.work.heartbeat(made.work, { environment_id: made.far, expected_last_heartbeat });

  it("agents, environments, vaults, files and skills exist once", async () => {
    const params = { name: "once", model: "scripted", tools: [{ type: "agent_toolset_20260401" as const }] };
    const [agent, environment, vault, file, skilled] = await unanswered(
      () => beta.agents.create(params),
      () => beta.environments.create({ name: "once" }),
      () => beta.vaults.create({ display_name: "once" }),
      async () => beta.files.upload({ file: await upload() }),
      async () => beta.skills.create({ display_name: "once", files: [await skill("one")] }),
    );
    expect(await idsOf(beta.agents.list())).toEqual([agent.id]);
    expect(await idsOf(beta.environments.list())).toEqual([environment.id]);
    expect(await idsOf(beta.vaults.list())).toEqual([vault.id]);
    expect(await idsOf(beta.files.list())).toEqual([file.id]);
    expect(await idsOf(beta.skills.list())).toEqual([skilled.id]);
    expect(agent).toMatchObject(await beta.agents.retrieve(agent.id));
    Object.assign(made, { agent: agent.id, environment: environment.id, vault: vault.id });
    Object.assign(made, { file: file.id, skill: skilled.id });

    const second = await beta.agents.create(params);
    expect(second.id).not.toBe(agent.id);
    expect((await beta.files.upload({ file: await upload() })).id).not.toBe(file.id);
    expect(await idsOf(beta.agents.list())).toHaveLength(2);
  });

  it("versions, credentials and sessions exist once", async () => {
    const auth = {
      type: "static_bearer",
      mcp_server_url: "https://mcp.example/x",
      token: "hush-hush",
    } as const;
    const params = {
      agent: made.agent,
      environment_id: made.environment,
      resources: [{ type: "file" as const, file_id: made.file }],
      initial_events: [message(text({ say: "begun" }))],
    };
    const [agent, credential, session, version] = await unanswered(
      () => beta.agents.update(made.agent, { version: 1, name: "twice" }),
      () => beta.vaults.credentials.create(made.vault, { display_name: "once", auth }),
      () => beta.sessions.create(params),
      async () => beta.skills.versions.create(made.skill, { files: [await skill("two")] }),
    );
    expect([agent.version, agent.name]).toEqual([2, "twice"]);
    expect(await collect(beta.agents.versions.list(made.agent))).toHaveLength(2);
    expect(await idsOf(beta.vaults.credentials.list(made.vault))).toEqual([credential.id]);
    expect(await idsOf(beta.sessions.list())).toEqual([session.id]);
    expect((await server.client.sessions.list({})).sessions.map(({ sessionId }) => sessionId)).toEqual([
      session.id,
    ]);
    expect((await collect(beta.skills.versions.list(made.skill))).map(({ id }) => id)).toContain(version.id);
    expect(await collect(beta.skills.versions.list(made.skill))).toHaveLength(2);
    expect(session.resources).toHaveLength(1);
    expect(await idsOf(beta.files.list({ scope_id: session.id }))).toHaveLength(1);
    expect(ofType(await history({ beta }, session.id), "user.message")).toHaveLength(1);
    made.session = session.id;

    const far = await beta.environments.create({ name: "far", config: { type: "self_hosted" } });
    await beta.sessions.create({ agent: made.agent, environment_id: far.id });
    const work = await beta.environments.work.poll(far.id, { block_ms: 500 });
    Object.assign(made, { far: far.id, work: work?.id });
    await beta.environments.work.ack(made.work, { environment_id: far.id });
  });

  it("events and resources are appended once, and sent on purpose they are appended again", async () => {
    const { session: id } = made;
    const send = () => beta.sessions.events.send(id, { events: [message(text({ say: "hi" }))] });
    const add = () => beta.sessions.resources.add(id, { type: "file", file_id: made.file });
    const count = async () => ofType(await history({ beta }, id), "user.message").length;
    const [sent, added, { last_heartbeat }] = await unanswered(send, add, () => beat("NO_HEARTBEAT"));
    expect(await beat(last_heartbeat)).toMatchObject({ lease_extended: true });
    await expect(beat("NO_HEARTBEAT")).rejects.toMatchObject({ status: 412 });
    expect(await count()).toBe(2);
    expect(await idsOf(beta.sessions.resources.list(id) as never)).toContain(added.id);
    expect(await collect(beta.sessions.resources.list(id))).toHaveLength(2);
    const again = await send();
    const [first, second] = [sent, again].map(({ data }) =>
      data?.map((event) => (event as { id: string }).id),
    );
    expect(second).not.toEqual(first);
    expect((await add()).id).not.toBe(added.id);
    expect([await count(), (await collect(beta.sessions.resources.list(id))).length]).toEqual([3, 3]);
  });

  it("a session that was created in part is completed and reported once", async () => {
    const git = createServer();
    git.listen(0, "127.0.0.1");
    await once(git, "listening");
    const url = `http://127.0.0.1:${(git.address() as AddressInfo).port}/slow.git`;
    // The git host gets its request after the session and its first file exist, and does not respond.
    proxy.cutAt(once(git, "request"), async () => {
      await killAndStart();
      expect(await idsOf(beta.sessions.list({ agent_id: made.agent }))).toHaveLength(2);
      git.on("request", (_, response: ServerResponse) => response.writeHead(404).end());
    });
    const session = await beta.sessions.create({
      agent: made.agent,
      environment_id: made.environment,
      resources: [
        { type: "file", file_id: made.file },
        { type: "github_repository", url },
      ],
      initial_events: [message(text({ say: "begun" }))],
    });
    git.closeAllConnections();
    git.close();
    expect(session.resources.map(({ type }) => type)).toEqual(["file", "github_repository"]);
    expect(await idsOf(beta.sessions.list({ agent_id: made.agent }))).toHaveLength(3);
    expect((await server.client.sessions.list({})).sessions).toHaveLength(3);
    expect(await idsOf(beta.files.list({ scope_id: session.id }))).toHaveLength(1);
    const events = await history({ beta }, session.id);
    expect([ofType(events, "user.message").length, ofType(events, "session.error").length]).toEqual([1, 1]);
  });

  it("a deletion stays done", async () => {
    const { session, environment, file } = made;
    const spare = await beta.environments.create({ name: "spare" });
    for (;;) {
      if ((await beta.sessions.retrieve(session)).status === "idle") break;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const [gone, stopped] = await unanswered(
      () => beta.sessions.delete(session),
      () => beta.environments.work.stop(made.work, { environment_id: made.far, force: true }),
      () => beta.environments.delete(spare.id),
      () => beta.files.delete(file),
    );
    expect(gone).toEqual({ id: session, type: "session_deleted" });
    expect(stopped).toMatchObject({ id: made.work, state: "stopped" });
    expect(await idsOf(beta.sessions.list())).not.toContain(session);
    expect(await idsOf(beta.environments.list())).toEqual([made.far, environment]);
    await expect(beta.files.retrieveMetadata(file)).rejects.toMatchObject({ status: 404 });
    await expect(beta.sessions.delete(session)).rejects.toMatchObject({ status: 404 });
  });
});
