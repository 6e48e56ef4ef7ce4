import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import { post, say, toEvents, WIRES } from "./wires.ts";

let model: ScriptedModel;
beforeAll(async () => {
  model = await createScriptedModel();
});
afterAll(() => model.close());

const SHELL = [{ name: "bash", properties: ["command"] }];
const cases = WIRES.flatMap((wire) => [true, false].map((stream) => ({ wire, stream, name: wire.id })));

describe.each(cases)("$name, streamed: $stream", ({ wire, stream }) => {
  const ask = (script: unknown[], more: { tools?: typeof SHELL } = {}) =>
    say(model.url, wire, { texts: [`#script ${JSON.stringify(script)}`], stream, ...more });

  it("says and thinks", async () => {
    const said = await ask([{ think: "let me see" }, { say: "héllo big 🌍 world", chunks: 5 }]);
    expect(said).toMatchObject({ text: "héllo big 🌍 world", thoughts: "let me see", calls: [] });
    expect(said.stop).toBe(
      { anthropic: "end_turn", responses: "completed", chat: "stop", gemini: "STOP" }[wire.id],
    );
  });

  it("calls the tool that is offered, and goes on behind its result", async () => {
    const script = [{ say: "now" }, { shell: "ls" }, { say: "then" }];
    const texts = [`#script ${JSON.stringify(script)}`];
    const first = await say(model.url, wire, { texts, stream, tools: SHELL });
    expect(first).toMatchObject({ text: "now", calls: [{ name: "bash", input: { command: "ls" } }] });
    const rounds = [first.calls.map((call) => Object.assign(call, { result: "a.txt" }))];
    const second = await say(model.url, wire, { texts, stream, tools: SHELL, rounds });
    expect(second).toMatchObject({ text: "then", calls: [] });
  });

  it("gives the calls of a parallel group in one answer, and counts them as one", async () => {
    const texts = [`#script [{"parallel":[{"shell":"a"},{"ask":{"shell":"b"}}]},{"say":"both"}]`];
    const first = await say(model.url, wire, { texts, stream, tools: SHELL });
    expect(first.calls.map(({ input }) => input.command)).toEqual(["a", "b"]);
    expect(new Set(first.calls.map(({ id }) => id)).size).toBe(2);
    const rounds = [first.calls.map((call) => Object.assign(call, { result: "" }))];
    const second = await say(model.url, wire, { texts, stream, tools: SHELL, rounds });
    expect(second.text).toBe("both");
  });

  it("reports the usage of the script", async () => {
    const { usage } = await ask([
      { say: "x" },
      { usage: { input_tokens: 10, output_tokens: 7, cache_read_tokens: 4, reasoning_tokens: 3 } },
    ]);
    expect(usage).toMatchObject(
      {
        anthropic: { input_tokens: 10, cache_read_input_tokens: 4, output_tokens: 7 },
        responses: {
          input_tokens: 14,
          input_tokens_details: { cached_tokens: 4 },
          output_tokens: 7,
          output_tokens_details: { reasoning_tokens: 3 },
        },
        chat: { prompt_tokens: 14, completion_tokens: 7, prompt_tokens_details: { cached_tokens: 4 } },
        gemini: { promptTokenCount: 14, candidatesTokenCount: 4, thoughtsTokenCount: 3 },
      }[wire.id] ?? {},
    );
  });

  it("refuses", async () => {
    const said = await ask([{ refuse: "not that" }, { say: "never said" }]);
    expect(said.text).toBe("not that");
    const stops = { anthropic: "refusal", responses: "completed", chat: "content_filter", gemini: "SAFETY" };
    expect(said.stop).toBe(stops[wire.id as keyof typeof stops]);
  });

  it("floods, in so many deltas of so many bytes", async () => {
    const { text } = await ask([{ flood: { events: 2000, bytes: 40 } }]);
    expect(text).toHaveLength(80_000);
  });

  it("answers the same request with the same bytes", async () => {
    const { path, body } = wire.request({
      texts: [`#script [{"think":"t"},{"say":"one two"},{"shell":"ls"}]`],
      tools: SHELL,
      stream,
    });
    const [first, second] = [await post(model.url + path, body), await post(model.url + path, body)];
    expect(await first.text()).toBe(await second.text());
  });

  it("quotes a prompt without a script, after a thought", async () => {
    const said = await say(model.url, wire, { texts: ["how are you?"], stream, tools: SHELL });
    expect(said.text).toContain("“how are you?”");
    expect(said.thoughts).not.toBe("");
    expect(said.calls).toEqual([]);
  });
});

describe("the server", () => {
  it("counts tokens and lists models", async () => {
    const counted = await post(`${model.url}/v1/messages/count_tokens`, { messages: [] });
    expect(await counted.json()).toEqual({ input_tokens: 4 });
    const gemini = await post(`${model.url}/v1beta/models/m:countTokens`, { contents: [] });
    expect(await gemini.json()).toEqual({ totalTokens: 4 });
    const models = (await (await fetch(`${model.url}/v1/models`)).json()) as { data: unknown[] };
    expect(models.data.length).toBeGreaterThan(0);
    expect((await fetch(`${model.url}/v1/nothing`)).status).toBe(404);
  });

  it("remembers the newest requests only, until it is told to forget", async () => {
    const small = await createScriptedModel({ keep: 2 });
    for (const text of ["one", "two", "three"])
      await say(small.url, WIRES[2]!, { texts: [text], stream: false });
    expect(
      small.requests.map(({ body }) => (body as { messages: { content: string }[] }).messages[0]?.content),
    ).toEqual(["two", "three"]);
    expect(small.requests[0]).toMatchObject({
      path: "/v1/chat/completions",
      wire: "chat",
      model: "chat-test",
    });
    small.reset();
    expect(small.requests).toEqual([]);
    await small.close();
  });

  it("waits inside the stream, and stops when the client leaves", async () => {
    const { path, body } = WIRES[0]!.request({
      texts: [`#script [{"say":"before"},{"sleep":600000},{"say":"after"}]`],
      stream: true,
    });
    const leaving = new AbortController();
    const response = await fetch(model.url + path, {
      method: "POST",
      body: JSON.stringify(body),
      signal: leaving.signal,
    });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let seen = "";
    while (!seen.includes("content_block_stop")) seen += (await reader.read()).value ?? "";
    leaving.abort();
    expect(seen).toContain("before");
    expect(seen).not.toContain("after");
  });

  it("closes while an answer waits", async () => {
    const other = await createScriptedModel();
    const { path, body } = WIRES[2]!.request({ texts: [`#script [{"sleep":600000}]`], stream: true });
    const response = await post(other.url + path, body);
    await other.close();
    await expect(response.text()).rejects.toThrow();
  });

  it("names the mistake in a script, and in a body", async () => {
    const { path, body } = WIRES[0]!.request({ texts: [`#script [{"sing":"la"}]`], stream: true });
    const wrong = await post(model.url + path, body);
    expect(wrong.status).toBe(400);
    expect(await wrong.text()).toContain("steps[0] is no known step");
    const broken = await fetch(`${model.url}/v1/responses`, { method: "POST", body: "{" });
    expect(broken.status).toBe(400);
  });

  it("sends one delta per word, or as many as asked for", async () => {
    const deltas = async (step: unknown) => {
      const { path, body } = WIRES[2]!.request({
        texts: [`#script ${JSON.stringify([step])}`],
        stream: true,
      });
      const events = toEvents(await (await post(model.url + path, body)).text());
      return events
        .filter(({ data }) => data !== "[DONE]")
        .map(({ data }) => (JSON.parse(data) as { choices: { delta: { content?: string } }[] }).choices[0])
        .flatMap((choice) => choice?.delta.content || []);
    };
    expect(await deltas({ say: "one two  three\n" })).toEqual(["one", " two", "  three\n"]);
    expect(await deltas({ say: "abcdef", chunks: 3 })).toEqual(["ab", "cd", "ef"]);
  });
});
