import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, collect, failureOf, openAnthropic } from "../anthropic-bench.ts";
import {
  type Event,
  history,
  isRunning,
  makeSession,
  message,
  ofType,
  text,
  watch,
} from "../session-bench.ts";

let bench: AnthropicBench;

beforeAll(async () => {
  bench = await openAnthropic({ workspaces: { "sk-other": "other" } });
});

afterAll(() => bench.close());

const sessions = () => bench.beta.sessions;

const send = (id: string, ...events: object[]) => sessions().events.send(id, { events: events as never });

const run = (id: string): Promise<Event[]> =>
  watch(bench, id, () => send(id, message(text({ sleep: 60_000 }))), isRunning);

const stop = (id: string): Promise<Event[]> => watch(bench, id, () => send(id, { type: "user.interrupt" }));

describe("C1: a new session", () => {
  it("is idle and complete, and has no events", async () => {
    const made = await makeSession(bench, { session: { title: "t", metadata: { a: "1" } } });
    const session = await sessions().retrieve(made.id);
    expect(session).toMatchObject({
      id: expect.stringMatching(/^sesn_/),
      type: "session",
      status: "idle",
      environment_id: made.environmentId,
      title: "t",
      metadata: { a: "1" },
      archived_at: null,
      resources: [],
      vault_ids: [],
      outcome_evaluations: [],
      budget: null,
      stats: expect.any(Object),
      usage: expect.any(Object),
    });
    const {
      metadata: _,
      created_at: __,
      updated_at: ___,
      archived_at: ____,
      ...agent
    } = await bench.beta.agents.retrieve(made.agentId);
    expect(session.agent).toEqual(agent);
    expect(await history(bench, made.id)).toEqual([]);
  });
});

describe("C2: the agent of a session", () => {
  it("is a snapshot", async () => {
    const { agentId, environmentId } = await makeSession(bench);
    const agent = { type: "agent" as const, id: agentId, version: 1 };
    const first = await sessions().create({ agent, environment_id: environmentId });
    await bench.beta.agents.update(agentId, { version: 1, name: "renamed" });
    const old = await sessions().create({ agent, environment_id: environmentId });
    const fresh = await sessions().create({ agent: agentId, environment_id: environmentId });
    expect([first, old, fresh].map((session) => session.agent.version)).toEqual([1, 1, 2]);
    expect((await sessions().retrieve(first.id)).agent.name).not.toBe("renamed");
  });

  it("C3: may be overridden for the session alone", async () => {
    const { agentId, environmentId } = await makeSession(bench);
    const session = await sessions().create({
      agent: { type: "agent_with_overrides", id: agentId, system: "be kind", tools: [] },
      environment_id: environmentId,
    });
    expect(session.agent).toMatchObject({ id: agentId, version: 1, system: "be kind", tools: [] });
    expect((await bench.beta.agents.retrieve(agentId)).system).toBeNull();
  });
});

describe("C4: initial events", () => {
  it("run without a send", async () => {
    const initial_events = [message(text({ say: "by itself" }))];
    const { id } = await makeSession(bench, { session: { initial_events } });
    for (let tries = 0; (await sessions().retrieve(id)).status !== "idle" && tries < 500; tries++)
      await new Promise((resolve) => setTimeout(resolve, 10));
    expect(ofType(await history(bench, id), "agent.message")).toHaveLength(1);
  });

  it("are limited in count, and are messages", async () => {
    const { agentId, environmentId } = await makeSession(bench);
    const create = (initial_events: object[]) => () =>
      sessions().create({
        agent: agentId,
        environment_id: environmentId,
        initial_events: initial_events as never,
      });
    const system = { type: "system.message", content: [{ type: "text", text: "x" }] };
    const many = Array.from({ length: 51 }, () => message("hi"));
    for (const events of [many, [system], [message("hi"), system], [{ type: "user.interrupt" }]])
      expect((await failureOf(bench, create(events))).error.status).toBe(400);
  });
});

describe("C5: an invalid session", () => {
  it("is refused, and no session is created", async () => {
    const { agentId, environmentId } = await makeSession(bench);
    const archived = await makeSession(bench);
    await bench.beta.agents.archive(archived.agentId);
    await bench.beta.environments.archive(archived.environmentId);
    const fit = { agent: agentId, environment_id: environmentId };
    const seventeen = Object.fromEntries(Array.from({ length: 17 }, (_, at) => [`k${at}`, "v"]));
    const count = async (): Promise<number> => (await collect(sessions().list({ limit: 100 }))).length;
    const before = await count();
    const wrong: [object, number][] = [
      [{ ...fit, agent: "agent_nope" }, 404],
      [{ ...fit, agent: { type: "agent", id: agentId, version: 9 } }, 404],
      [{ ...fit, agent: archived.agentId }, 400],
      [{ ...fit, environment_id: "env_nope" }, 404],
      [{ ...fit, environment_id: archived.environmentId }, 400],
      [{ ...fit, metadata: seventeen }, 400],
      [{ ...fit, vault_ids: ["vlt_nope"] }, 404],
      [{ ...fit, resources: [{ type: "file", file_id: "file_nope" }] }, 404],
      [{ ...fit, resources: [{ type: "memory_store", memory_store_id: "x" }] }, 400],
      [{ ...fit, title: 3 }, 400],
      [{ agent: agentId }, 400],
    ];
    for (const [given, status] of wrong) {
      const { error, requests } = await failureOf(bench, () => sessions().create(given as never));
      expect(error.status, JSON.stringify(given)).toBe(status);
      expect(requests).toBe(1);
    }
    expect(await count()).toBe(before);
    const { sessions: known } = await bench.test.engine.list({ limit: 1000 });
    expect(known).toHaveLength(before);
  });

  it("is one with an unknown model", async () => {
    const { environmentId } = await makeSession(bench);
    const agent = await bench.beta.agents.create({ name: "x", model: "unheard-of" });
    const create = () => sessions().create({ agent: agent.id, environment_id: environmentId });
    expect((await failureOf(bench, create)).error.message).toContain("harness");
    const named = await bench.beta.agents.create({
      name: "y",
      model: "unheard-of",
      metadata: { harness: "scripted" },
    });
    const session = await sessions().create({ agent: named.id, environment_id: environmentId });
    expect(session.status).toBe("idle");
  });
});

describe("C6: the list of sessions", () => {
  it("filters by every parameter, newest first, in pages of both directions", async () => {
    const { agentId: agent_id, environmentId: environment_id, id } = await makeSession(bench);
    const ids = [id];
    for (let at = 0; at < 4; at++)
      ids.push((await sessions().create({ agent: agent_id, environment_id })).id);
    const list = async (query: object): Promise<string[]> =>
      (await collect(sessions().list({ agent_id, ...query }))).map((session) => session.id);
    expect(await list({})).toEqual(ids.toReversed());
    expect(await list({ order: "asc", limit: 2 })).toEqual(ids);
    expect(await list({ agent_version: 1 })).toHaveLength(5);
    expect(await list({ agent_version: 2 })).toEqual([]);
    await run(ids[2] ?? "");
    expect(await list({ statuses: ["running"] })).toEqual([ids[2]]);
    expect(await list({ statuses: ["idle"], limit: 1 })).toHaveLength(4);
    await stop(ids[2] ?? "");
    await sessions().archive(ids[0] ?? "");
    expect(await list({})).toHaveLength(4);
    expect(await list({ include_archived: true })).toHaveLength(5);
    const { created_at } = await sessions().retrieve(ids[3] ?? "");
    const later = await list({ "created_at[gte]": created_at, order: "asc" });
    expect(later.at(-1)).toBe(ids[4]);
    expect(later).toContain(ids[3]);

    const first = await sessions().list({ agent_id, limit: 2, order: "asc" });
    const second = await first.getNextPage();
    expect(first.prev_page).toBeNull();
    const back = await sessions().list({ agent_id, limit: 2, order: "asc", page: second.prev_page ?? "" });
    expect(back.data.map((session) => session.id)).toEqual(first.data.map((session) => session.id));
    const turned = () => sessions().list({ agent_id, order: "desc", page: second.prev_page ?? "" });
    expect((await failureOf(bench, turned)).error.status).toBe(400);
  });
});

describe("A10: another workspace", () => {
  it("does not see it", async () => {
    const { id } = await makeSession(bench);
    const other = bench.clientOf("sk-other").beta.sessions;
    for (const call of [
      () => other.retrieve(id),
      () => other.events.list(id),
      () => other.events.stream(id),
      () => other.events.send(id, { events: [message("hi")] }),
      () => other.delete(id),
    ])
      expect((await failureOf(bench, call)).error.status).toBe(404);
    expect(await collect(other.list())).toEqual([]);
  });
});
