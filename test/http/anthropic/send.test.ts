import { Buffer } from "node:buffer";
import { toFile } from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, BETA, envelopeOf, failureOf, KEY, openAnthropic } from "./anthropicBench.ts";
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
  typesOf,
  watch,
} from "./sessionBench.ts";

let bench: AnthropicBench;
beforeAll(async () => {
  bench = await openAnthropic();
});
afterAll(() => bench.close());

const interrupt = (session_thread_id: string | null) => ({ type: "user.interrupt", session_thread_id });
const system = (words: string) => ({ type: "system.message", content: [{ type: "text", text: words }] });
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

describe("A5: a session that is not there", () => {
  it("is a 404 in one request, whatever is wanted of it", async () => {
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

describe("A6, D12: what is no batch of events", () => {
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
      expect(requests).toBe(1);
    }
    expect(await history(bench, id)).toEqual([]);
    expect((await bench.test.engine.info(id)).eventCount).toBe(0);
  });
});

describe("D1: a message", () => {
  it("is answered as it will be listed and streamed", async () => {
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

const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

describe("blocks", () => {
  it("D2, D3: of every kind are taken, echoed as they were sent, and reach the agent", async () => {
    const { id } = await makeSession(bench);
    const image = await bench.client.beta.files.upload({
      file: await toFile(Buffer.from(PNG, "base64"), "dot.png", { type: "image/png" }),
    });
    const document = await bench.client.beta.files.upload({
      file: await toFile(Buffer.from("the words of the file"), "words.txt", { type: "text/plain" }),
    });
    const path = `/mnt/session/uploads/${document.id}/words.txt`;
    const content = [
      { type: "text", text: text({ shell: "cat /mnt/session/uploads/*/words.txt" }) },
      { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
      { type: "image", source: { type: "url", url: "https://example.com/a.png" } },
      { type: "image", source: { type: "file", file_id: image.id } },
      { type: "document", source: { type: "base64", media_type: "application/pdf", data: "JVBERi0=" } },
      { type: "document", source: { type: "text", media_type: "text/plain", data: "plain" }, title: "t" },
      { type: "document", source: { type: "url", url: "https://example.com/a.pdf" } },
      {
        type: "document",
        source: { type: "file", file_id: document.id },
        title: "input",
        citations: { enabled: true },
      },
    ];
    const events = await watch(bench, id, () => bench.send(id, { type: "user.message", content }));
    expect(events[0]).toMatchObject({ type: "user.message", content });
    expect(ofType(events, "agent.tool_result")[0]).toMatchObject({ is_error: false });
    expect(JSON.stringify(ofType(events, "agent.tool_result")[0]?.content)).toContain(
      "the words of the file",
    );
    const files = await bench.test.engine.files(id);
    expect(Buffer.from(await files.read(path)).toString()).toBe("the words of the file");
    await expectListed(bench, id, events);
  });

  it("D5: a search_result is none of a message's", async () => {
    const { id } = await makeSession(bench);
    const block = { type: "search_result", source: "s", title: "t", content: [{ type: "text", text: "x" }] };
    const { error } = await failureOf(bench, () =>
      bench.send(id, { type: "user.message", content: [block] }),
    );
    expect(error.status).toBe(400);
    expect(error.message).toContain("search_result");
    expect((await bench.test.engine.info(id)).eventCount).toBe(0);
  });

  it("that name a file which is not there are refused before anything is taken", async () => {
    const { id } = await makeSession(bench);
    const content = [{ type: "document", source: { type: "file", file_id: "file_nope" } }];
    const { error } = await failureOf(bench, () =>
      bench.send(id, message("hi"), { type: "user.message", content }),
    );
    expect(error.status).toBe(404);
    expect(await history(bench, id)).toEqual([]);
  });

  it("D6: results of tools take text, image, document and search_result", async () => {
    const custom = { type: "custom", name: "look", description: "", input_schema: { type: "object" } };
    const content = [
      { type: "text", text: "some text" },
      { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
      { type: "document", source: { type: "text", media_type: "text/plain", data: "document words" } },
      {
        type: "search_result",
        source: "https://example.com/found",
        title: "Found",
        content: [{ type: "text", text: "found words" }],
        citations: { enabled: true },
      },
    ];
    const own = await makeSession(bench, { tools: [custom] });
    const first = await turn(bench, own.id, { custom: { name: "look", input: {} } });
    const custom_tool_use_id = ofType(first, "agent.custom_tool_use")[0]?.id;
    const second = await watch(bench, own.id, () =>
      bench.send(own.id, { type: "user.custom_tool_result", custom_tool_use_id, content }),
    );
    expect(second[0]).toMatchObject({ content });
    for (const words of ["some text", "image/png", "document words", "found words"])
      expect(said(second)).toContain(words);

    const away = await makeSession(bench, { selfHosted: true });
    const third = await turn(bench, away.id, { shell: "look" }, { say: "seen" });
    const tool_use_id = ofType(third, "agent.tool_use")[0]?.id;
    const fourth = await watch(bench, away.id, () =>
      bench.send(away.id, { type: "user.tool_result", tool_use_id, content }),
    );
    expect(fourth[0]).toMatchObject({ content });
    expect(said(fourth)).toBe("seen");
  });
});

describe("a system message", () => {
  it("D7: stands behind its message, and holds for this turn and the next", async () => {
    const { id } = await makeSession(bench);
    const events = await watch(bench, id, () =>
      bench.send(id, message(text({ say: "one" })), system("speak Latin")),
    );
    expect(typesOf(events).slice(0, 3)).toEqual(["user.message", "system.message", "session.status_running"]);
    expect(events[1]).toMatchObject(system("speak Latin"));
    const next = await turn(bench, id, { say: "$history" });
    expect(said(next)).toContain("speak Latin");
    await expectListed(bench, id, [...events, ...next]);
  });

  it("D8, D10: anywhere else is refused with its whole batch", async () => {
    const { id } = await makeSession(bench);
    const hi = message("hi");
    const batches = [
      [system("x")],
      [system("x"), hi],
      [hi, system("x"), hi],
      [hi, system("x"), system("y")],
      [{ type: "user.interrupt" }, system("x")],
      [{ type: "user.tool_confirmation", tool_use_id: "sevt_x", result: "allow" }, system("x")],
      [hi, { type: "system.message", content: [] }],
      [
        hi,
        { type: "system.message", content: [{ type: "image", source: { type: "url", url: "https://a.b" } }] },
      ],
    ];
    for (const batch of batches) {
      const { error } = await failureOf(bench, () => bench.send(id, ...batch));
      expect(error.status, JSON.stringify(batch)).toBe(400);
    }
    expect((await bench.test.engine.info(id)).eventCount).toBe(0);
  });

  it("D9: may stand behind a tool's result", async () => {
    const custom = { type: "custom", name: "look", description: "", input_schema: { type: "object" } };
    const own = await makeSession(bench, { tools: [custom] });
    const first = await turn(bench, own.id, { custom: { name: "look", input: {} } });
    const custom_tool_use_id = ofType(first, "agent.custom_tool_use")[0]?.id;
    const content = [{ type: "text", text: "seen" }];
    const second = await watch(bench, own.id, () =>
      bench.send(
        own.id,
        { type: "user.custom_tool_result", custom_tool_use_id, content },
        system("be brief"),
      ),
    );
    expect(typesOf(second).slice(0, 2)).toEqual(["user.custom_tool_result", "system.message"]);
    expect(said(second)).toContain("be brief");

    const away = await makeSession(bench, { selfHosted: true });
    const third = await turn(bench, away.id, { shell: "look" });
    const tool_use_id = ofType(third, "agent.tool_use")[0]?.id;
    const fourth = await watch(bench, away.id, () =>
      bench.send(away.id, { type: "user.tool_result", tool_use_id, content }, system("be brief")),
    );
    expect(typesOf(fourth).slice(0, 2)).toEqual(["user.tool_result", "system.message"]);
    await expectListed(bench, away.id, [...third, ...fourth]);
  });
});

describe("D11: session_thread_id", () => {
  it("is taken for the primary thread and for none, and no other", async () => {
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
  it("wait in order, and are listed once", async () => {
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
    // First as it is queued, then as it is taken up, under the same id.
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

  it("of an answer is answered as the first was", async () => {
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

  it("of a creation is told of the same session", async () => {
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
