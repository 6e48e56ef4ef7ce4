import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SessionChange } from "../../../../src/sessions/fold/change.ts";
import { type AnthropicBench, BETA, collect, failureOf, KEY, openAnthropic } from "../anthropic-bench.ts";
import {
  type Event,
  history,
  isRunning,
  makeSession,
  message,
  text,
  turn,
  typesOf,
  watch,
} from "../session-bench.ts";

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

describe("C7: an archived session", () => {
  it("can only be read, and a running one cannot be archived", async () => {
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

/** The document after a crash between its two writes. With `isTold` the log has the change. */
const crash = async (id: string, change: SessionChange, isTold: boolean): Promise<void> => {
  const found = await bench.catalog.find("default", "session", id);
  const key = `test:${(keys += 1)}`;
  const body = { ...(found?.body as object), pending: { key, change } };
  const expect = found?.revision ?? 0;
  await bench.catalog.write("default", [{ op: "replace", kind: "session", id, expect, body }]);
  if (isTold) await bench.test.engine.update(id, change, { key });
};
let keys = 0;

describe("a session whose log was trimmed", () => {
  const trim = async (id: string): Promise<void> =>
    bench.test.log.trim(id, (await bench.test.log.find(id))?.head ?? 0);

  it.each([
    ["that the log never had", false, "as it was"],
    ["that the log had", true, "renamed"],
  ])("shows a pending change %s: %s", async (_, isTold, title) => {
    const { id } = await makeSession(bench, { session: { title: "as it was" } });
    await turn(bench, id, { say: "one" });
    await crash(id, { title: "renamed" }, isTold);
    await turn(bench, id, { say: "two" });
    await trim(id);
    expect((await sessions().retrieve(id)).title).toBe(title);
    expect((await collect(sessions().list())).find((one) => one.id === id)?.title).toBe(title);
    await turn(bench, id, { say: "three" });
    await sessions().delete(id);
  });

  it("answers a resend of a message that was trimmed, and runs it once", async () => {
    const { id } = await makeSession(bench);
    const body = JSON.stringify({ events: [message(text({ say: "one" }))] });
    const post = (count: number): Promise<Response> =>
      bench.raw("POST", `/sessions/${id}/events`, {
        body,
        headers: {
          authorization: `Bearer ${KEY}`,
          "anthropic-beta": BETA,
          "x-stainless-retry-count": `${count}`,
        },
      });
    await watch(bench, id, () => post(0));
    await trim(id);
    const answer = await post(1);
    expect(answer.status, await answer.clone().text()).toBe(200);
    expect(await answer.json()).toMatchObject({ data: [{ type: "user.message" }] });
    expect(await history(bench, id)).toEqual([]);
    await sessions().delete(id);
  });
});

describe("updates", () => {
  it("I1: have only the changed fields", async () => {
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

  it("I4: of tools apply from the next turn on and are refused during a turn", async () => {
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

  it("that a crash cut short apply if the log has them", async () => {
    const { id } = await makeSession(bench, { session: { title: "a" } });
    await crash(id, { title: "never" }, false);
    expect((await sessions().retrieve(id)).title).toBe("a");
    await crash(id, { title: "b" }, true);
    expect((await sessions().retrieve(id)).title).toBe("b");
    expect(await sessions().update(id, { metadata: { x: "y" } })).toMatchObject({
      title: "b",
      metadata: { x: "y" },
    });
    expect((await sessions().retrieve(id)).title).toBe("b");
  });

  it("that a crash cut short are not taken from an equal change of another client", async () => {
    const { id } = await makeSession(bench, { session: { title: "a" } });
    await crash(id, { title: "b", metadata: { x: "y" } }, false);
    await bench.test.engine.update(id, { title: "b" });
    expect((await sessions().retrieve(id)).metadata).toEqual({});
  });

  it("that arrive at once are all applied", async () => {
    const { id } = await makeSession(bench);
    const keys = ["a", "b", "c", "d"];
    await Promise.all(keys.map((key) => sessions().update(id, { metadata: { [key]: key } })));
    expect((await sessions().retrieve(id)).metadata).toEqual(
      Object.fromEntries(keys.map((key) => [key, key])),
    );
  });

  it("I5: of vaults are accepted without an event", async () => {
    const { id } = await makeSession(bench);
    const vault = await bench.beta.vaults.create({ display_name: "v" });
    const updated = await sessions().update(id, { vault_ids: [vault.id] } as never);
    expect(updated.vault_ids).toEqual([vault.id]);
    expect(await history(bench, id)).toEqual([]);
  });
});

describe("I6: a deleted session", () => {
  it("ends every stream with session.deleted and is gone", async () => {
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

  it("cannot be deleted while it runs", async () => {
    const { id } = await makeSession(bench);
    await run(id);
    expect((await failureOf(bench, () => sessions().delete(id))).error.status).toBe(400);
    await stop(id);
    await sessions().delete(id);
  });
});
