import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, collect, failureOf, openAnthropic } from "./anthropicBench.ts";
import {
  type Event,
  history,
  isRunning,
  makeSession,
  message,
  ofType,
  text,
  turn,
  typesOf,
  watch,
} from "./sessionBench.ts";

let bench: AnthropicBench;
beforeAll(async () => {
  bench = await openAnthropic({ workspaces: { "sk-other": "other" } });
});
afterAll(() => bench.close());

const sessions = () => bench.beta.sessions;
const send = (id: string, ...events: object[]) => sessions().events.send(id, { events: events as never });
const isUpdate = (event: Event): boolean => event.type === "session.updated";
const official = (event: object): object => {
  const { id: _, type: __, processed_at: ___, ...rest } = event as Record<string, unknown>;
  return rest;
};
const run = (id: string): Promise<Event[]> =>
  watch(bench, id, () => send(id, message(text({ sleep: 60_000 }))), isRunning);
const stop = (id: string): Promise<Event[]> => watch(bench, id, () => send(id, { type: "user.interrupt" }));

describe("C1: a new session", () => {
  it("is idle, whole, and has told nothing", async () => {
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
  it("stays what it was", async () => {
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

  it("are few, and messages", async () => {
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

describe("C5: what cannot be made", () => {
  it("is refused, and there is no session", async () => {
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

  it("is an agent whose model nobody knows", async () => {
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
  it("filters by all that is asked, newest first, and pages both ways", async () => {
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

describe("C7: an archived session", () => {
  it("can be read, and nothing else; a running one is not archived", async () => {
    const { id } = await makeSession(bench);
    await turn(bench, id, { say: "hi" });
    await run(id);
    const early = await failureOf(bench, () => sessions().archive(id));
    expect(early.error.status).toBe(400);
    expect(early.requests).toBe(1);
    await stop(id);
    const archived = await sessions().archive(id);
    expect(archived.archived_at).toMatch(/^\d{4}-/);
    expect((await sessions().archive(id)).archived_at).toBe(archived.archived_at);
    expect((await history(bench, id)).length).toBeGreaterThan(5);
    expect((await failureOf(bench, () => send(id, message("hi")))).error.status).toBe(400);
    expect((await failureOf(bench, () => sessions().update(id, { title: "x" }))).error.status).toBe(400);
    await sessions().delete(id);
  });
});

describe("a session whose log was trimmed", () => {
  it("is read although a change of it was begun in a part that is forgotten", async () => {
    const { id } = await makeSession(bench, { session: { title: "as it was" } });
    await turn(bench, id, { say: "one" });
    // As a crash between the log and the document leaves it.
    const [document] = await bench.catalog.list("default", { kind: "session", ids: [id], limit: 1 });
    if (!document) throw new Error(`no document of ${id}`);
    const { kind, revision: expect_, body } = document;
    const pending = { after: 1, change: { title: "renamed" } };
    await bench.catalog.write("default", [
      { op: "replace", kind, id, expect: expect_, body: { ...(body as object), pending } },
    ]);
    await bench.test.log.trim(id, (await bench.test.log.find(id))?.head ?? 0);
    expect((await sessions().retrieve(id)).title).toBe("as it was");
    await turn(bench, id, { say: "two" });
    await sessions().delete(id);
  });
});

describe("updates", () => {
  it("I1: tell what changed, and only that", async () => {
    const { id } = await makeSession(bench, { session: { title: "a", metadata: { one: "1", two: "2" } } });
    const events = await watch(bench, id, () => sessions().update(id, { title: "b" }), isUpdate);
    expect(official(events[0] as object)).toEqual({ title: "b" });
    const updated = await sessions().update(id, { title: "b", metadata: { one: null as never, three: "3" } });
    expect(updated).toMatchObject({ title: "b", metadata: { two: "2", three: "3" } });
    await sessions().update(id, { title: "b", metadata: { three: "3" } });
    await sessions().update(id, {});
    const listed = await history(bench, id);
    expect(listed.map(official)).toEqual([{ title: "b" }, { metadata: { two: "2", three: "3" } }]);
    expect(listed[0]).toEqual(events[0]);
  });

  it("I4: of tools hold from the next turn on, and are refused while one runs", async () => {
    const { id } = await makeSession(bench);
    await turn(bench, id, { shell: "true" });
    const ask = { permission_policy: { type: "always_ask" as const } };
    const tools = [{ type: "agent_toolset_20260401" as const, default_config: ask }];
    const [event] = await watch(bench, id, () => sessions().update(id, { agent: { tools } }), isUpdate);
    const session = await sessions().retrieve(id);
    expect((event as { agent?: unknown }).agent).toEqual(session.agent);
    expect(session.agent.tools[0]).toMatchObject({ default_config: ask });
    const events = await turn(bench, id, { shell: "true" });
    expect(events.at(-1)).toMatchObject({ stop_reason: { type: "requires_action" } });
    const refused = () => sessions().update(id, { agent: { tools: [] } });
    expect((await failureOf(bench, refused)).error.status).toBe(400);
    await stop(id);
    await run(id);
    expect((await failureOf(bench, refused)).error.status).toBe(400);
    await stop(id);
  });

  it("that the server died in the middle of hold if the log says so", async () => {
    const { id } = await makeSession(bench, { session: { title: "a" } });
    const crash = async (change: { title: string }, isTold: boolean): Promise<void> => {
      const found = await bench.catalog.find("default", "session", id);
      const { eventCount: after } = await bench.test.engine.info(id);
      const body = { ...(found?.body as object), pending: { after, change } };
      const expect = found?.revision ?? 0;
      await bench.catalog.write("default", [{ op: "replace", kind: "session", id, expect, body }]);
      if (isTold) await bench.test.engine.update(id, change);
    };
    await crash({ title: "never" }, false);
    expect((await sessions().retrieve(id)).title).toBe("a");
    await crash({ title: "b" }, true);
    expect((await sessions().retrieve(id)).title).toBe("b");
    expect(await sessions().update(id, { metadata: { x: "y" } })).toMatchObject({
      title: "b",
      metadata: { x: "y" },
    });
    expect((await sessions().retrieve(id)).title).toBe("b");
  });

  it("that come at once are all made", async () => {
    const { id } = await makeSession(bench);
    const keys = ["a", "b", "c", "d"];
    await Promise.all(keys.map((key) => sessions().update(id, { metadata: { [key]: key } })));
    expect((await sessions().retrieve(id)).metadata).toEqual(
      Object.fromEntries(keys.map((key) => [key, key])),
    );
  });

  it("I5: of vaults are taken, and told to nobody", async () => {
    const { id } = await makeSession(bench);
    const vault = await bench.beta.vaults.create({ display_name: "v" });
    const updated = await sessions().update(id, { vault_ids: [vault.id] } as never);
    expect(updated.vault_ids).toEqual([vault.id]);
    expect(await history(bench, id)).toEqual([]);
  });
});

describe("I6: a deleted session", () => {
  it("ends every stream with its last word, and is gone", async () => {
    const { id } = await makeSession(bench);
    await turn(bench, id, { say: "hi" });
    const streams = await Promise.all([sessions().events.stream(id), sessions().events.stream(id)]);
    const reading = streams.map((stream) => collect(stream));
    expect(await sessions().delete(id)).toEqual({ id, type: "session_deleted" });
    for (const events of await Promise.all(reading)) {
      expect(typesOf(events as Event[]).at(-1)).toBe("session.deleted");
    }
    for (const call of [
      () => sessions().retrieve(id),
      () => sessions().events.list(id),
      () => send(id, message("hi")),
      () => sessions().delete(id),
    ])
      expect((await failureOf(bench, call)).error.status).toBe(404);
  });

  it("is not deleted while it runs", async () => {
    const { id } = await makeSession(bench);
    await run(id);
    expect((await failureOf(bench, () => sessions().delete(id))).error.status).toBe(400);
    await stop(id);
    await sessions().delete(id);
  });
});

describe("A10: another workspace", () => {
  it("sees nothing of it", async () => {
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
