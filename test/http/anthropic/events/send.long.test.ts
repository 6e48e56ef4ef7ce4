import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, BETA, envelopeOf, failureOf, KEY, openAnthropic } from "../anthropic-bench.ts";
import {
  type Event,
  expectListed,
  history,
  isEnd,
  isRunning,
  makeSession,
  message,
  ofType,
  text,
  turn,
  watch,
} from "../session-bench.ts";

let bench: AnthropicBench;

beforeAll(async () => {
  bench = await openAnthropic();
});

afterAll(() => bench.close());

const interrupt = (session_thread_id: string | null) => ({ type: "user.interrupt", session_thread_id });

const post = (id: string, body: string, headers: Record<string, string> = {}) =>
  bench.raw("POST", `/sessions/${id}/events`, {
    body,
    headers: {
      authorization: `Bearer ${KEY}`,
      "anthropic-beta": BETA,
      "content-type": "application/json",
      ...headers,
    },
  });

const said = (events: readonly Event[]): string =>
  ofType(events, "agent.message")
    .flatMap(({ content }) => content.map((block) => (block.type === "text" ? block.text : "")))
    .join("\n");

describe("A5: an unknown session", () => {
  it("is a 404 in one request, for every call", async () => {
    const { sessions } = bench.beta;
    const id = "sesn_nope";
    const calls: (() => PromiseLike<unknown>)[] = [
      () => sessions.retrieve(id),
      () => sessions.events.list(id),
      () => bench.send(id, message("hi")),
      () => sessions.events.stream(id),
      () => sessions.archive(id),
      () => sessions.delete(id),
      () => sessions.threads.list(id),
      () => sessions.resources.list(id),
    ];
    for (const call of calls) {
      const { error, requests } = await failureOf(bench, call);
      expect(error).toMatchObject({ status: 404, type: "not_found_error" });
      expect(requests).toBe(1);
    }
    const raw = await bench.raw("GET", `/sessions/${id}/events/stream`);
    expect((await envelopeOf(raw)).error.type).toBe("not_found_error");
  });
});

describe("A6, D12: an invalid batch of events", () => {
  it("is refused, and nothing is appended", async () => {
    const { id } = await makeSession(bench);
    const bodies = ["{", '{"events":"x"}', "{}", '{"events":[]}', "[]", '{"events":[{}]}', '{"events":[1]}'];
    for (const body of bodies) {
      const answer = await post(id, body);
      expect(answer.status, body).toBe(400);
      expect((await envelopeOf(answer)).error.type).toBe("invalid_request_error");
    }
    const strange = [
      { type: "user.foo" },
      { type: "agent.message", content: [{ type: "text", text: "x" }] },
      { type: "session.status_idle" },
      { type: "user.define_outcome", description: "x", rubric: { type: "text", content: "y" } },
      { type: "user.message", content: [] },
      { type: "user.message", content: "words" },
      { type: "user.message" },
    ];
    for (const event of strange) {
      const { error, requests } = await failureOf(bench, () => bench.send(id, message("hi"), event));
      expect(error.status, JSON.stringify(event)).toBe(400);
      expect(error.message).not.toContain("..");
      expect(requests).toBe(1);
    }
    expect(await history(bench, id)).toEqual([]);
    expect((await bench.test.engine.info(id)).eventCount).toBe(0);
  });
});

describe("D1: a message", () => {
  it("is returned as it will be listed and streamed", async () => {
    const { id } = await makeSession(bench);
    let answered: unknown;
    const events = await watch(bench, id, async () => {
      const { data } = await bench.send(id, message(text({ say: "hi" })));
      answered = data?.[0];
    });
    expect(answered).toMatchObject({ ...message(text({ say: "hi" })), id: expect.stringMatching(/^sevt_/) });
    const { id: eventId } = answered as { id: string };
    expect((events[0] as { id: string }).id).toBe(eventId);
    expect(((await history(bench, id))[0] as { id: string }).id).toBe(eventId);
    await expectListed(bench, id, events);
  });
});

describe("D11: session_thread_id", () => {
  it("is accepted if absent or the primary thread's, and refused otherwise", async () => {
    const { id } = await makeSession(bench);
    const [thread] = (await bench.beta.sessions.threads.list(id)).data;
    await bench.send(id, interrupt(thread?.id ?? ""));
    await bench.send(id, interrupt(null));
    expect((await failureOf(bench, () => bench.send(id, interrupt("sthr_other")))).error.status).toBe(400);
    const ask = [
      { type: "agent_toolset_20260401", default_config: { permission_policy: { type: "always_ask" } } },
    ];
    const asking = await makeSession(bench, { tools: ask });
    const [own] = (await bench.beta.sessions.threads.list(asking.id)).data;
    const tool_use_id = ofType(await turn(bench, asking.id, { shell: "true" }), "agent.tool_use")[0]?.id;
    const confirmation = { type: "user.tool_confirmation", tool_use_id, result: "allow" };
    const events = await watch(
      bench,
      asking.id,
      () => bench.send(asking.id, { ...confirmation, session_thread_id: own?.id }),
      isEnd,
    );
    expect(events[0]).toMatchObject({ session_thread_id: own?.id });
  });
});

describe("D14: messages while a turn runs", () => {
  it("wait in order and are listed once", async () => {
    const { id } = await makeSession(bench);
    await watch(bench, id, () => bench.send(id, message(text({ sleep: 700 }, { say: "0" }))), isRunning);
    let ends = 0;
    const events = await watch(
      bench,
      id,
      async () => {
        for (const word of ["1", "2", "3"]) {
          const { data } = await bench.send(id, message(text({ say: word })));
          expect(data).toMatchObject([{ processed_at: null }]);
        }
        const queued = (await history(bench, id)).slice(-3);
        expect(queued).toMatchObject([1, 2, 3].map(() => ({ type: "user.message", processed_at: null })));
        const page = await bench.beta.sessions.events.list(id, { order: "desc", limit: 2 });
        expect(page.data).toEqual([queued[2], queued[1]]);
      },
      (event) => isEnd(event) && ++ends === 4,
    );
    expect(said(events)).toBe("0\n1\n2\n3");
    // First as queued, then as processed, under the same id.
    const messages = ofType(events, "user.message");
    expect(messages.map(({ processed_at }) => processed_at === null)).toEqual([
      true,
      true,
      true,
      false,
      false,
      false,
    ]);
    expect(new Set(messages.map(({ id }) => id)).size).toBe(3);
    expect(ofType(await history(bench, id), "user.message")).toHaveLength(4);
    await expectListed(bench, id, events);
  });
});

describe("H4: a resend", () => {
  it("appends nothing, and a deliberate second send does", async () => {
    const { id } = await makeSession(bench);
    const body = JSON.stringify({ events: [message(text({ say: "hi" }))] });
    const answers: unknown[] = [];
    const events = await watch(bench, id, async () => {
      for (const count of ["0", "1", "2"]) {
        const answer = await post(id, body, { "x-stainless-retry-count": count });
        expect(answer.status).toBe(200);
        const { data } = (await answer.json()) as { data: { id: string }[] };
        answers.push(data[0]?.id);
      }
    });
    expect(new Set(answers).size).toBe(1);
    expect(said(events)).toBe("hi");
    expect(ofType(await history(bench, id), "user.message")).toHaveLength(1);
    const again = await watch(bench, id, () => post(id, body, { "x-stainless-retry-count": "0" }));
    expect(said(again)).toBe("hi");
    await post(id, body, { "x-stainless-retry-count": "1" });
    expect(ofType(await history(bench, id), "user.message")).toHaveLength(2);
  });

  it("of an answer gets the first response", async () => {
    const ask = [
      { type: "agent_toolset_20260401", default_config: { permission_policy: { type: "always_ask" } } },
    ];
    const { id } = await makeSession(bench, { tools: ask });
    const tool_use_id = ofType(await turn(bench, id, { shell: "true" }), "agent.tool_use")[0]?.id;
    const body = JSON.stringify({
      events: [{ type: "user.tool_confirmation", tool_use_id, result: "allow" }],
    });
    await watch(bench, id, () => post(id, body, { "x-stainless-retry-count": "0" }), isEnd);
    expect((await post(id, body, { "x-stainless-retry-count": "1" })).status).toBe(200);
    expect(ofType(await history(bench, id), "user.tool_confirmation")).toHaveLength(1);
  });

  it("of another answer is a conflict that names the first one", async () => {
    const ask = [
      { type: "agent_toolset_20260401", default_config: { permission_policy: { type: "always_ask" } } },
    ];
    const { id } = await makeSession(bench, { tools: ask });
    const tool_use_id = ofType(await turn(bench, id, { shell: "true" }), "agent.tool_use")[0]?.id;
    const answer = (result: string) =>
      bench.send(id, { type: "user.tool_confirmation", tool_use_id, result });
    await watch(bench, id, () => answer("allow"), isEnd);
    const { error } = await failureOf(bench, () => answer("deny"));
    expect(error.status).toBe(409);
    expect(error.message).toContain("was resolved already by user: approved");
  });

  it("of a creation returns the same session", async () => {
    const { agentId, environmentId } = await makeSession(bench);
    const body = JSON.stringify({ agent: agentId, environment_id: environmentId, title: "once" });
    const create = async (count: string): Promise<string> => {
      const headers = {
        authorization: `Bearer ${KEY}`,
        "anthropic-beta": BETA,
        "x-stainless-retry-count": count,
      };
      return ((await (await bench.raw("POST", "/sessions", { body, headers })).json()) as { id: string }).id;
    };
    const first = await create("0");
    expect(await create("1")).toBe(first);
    expect(await create("0")).not.toBe(first);
  });
});
