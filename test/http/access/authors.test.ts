import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SluiceEvent } from "../../../src/contract/index.ts";
import { ofType, readAll, script, waitFor } from "../../support/engine.ts";
import { type AccessBench, OPERATOR, openAccess } from "./access-bench.ts";

let bench: AccessBench;
beforeEach(async () => {
  bench = await openAccess();
});
afterEach(() => bench.close());

const STEPS = [
  { ask: { shell: "true" } },
  { question: { prompt: "Which?", options: ["red", "blue"] } },
  { custom: { name: "weather", input: {} } },
  { sleep: 60_000 },
];

/** Sends, answers and interrupts, each as this token. */
async function act(token: string, session: string): Promise<void> {
  const post = async (path: string, json: object): Promise<void> => {
    const response = await bench.as(token, "POST", `/v1/sessions/${session}/${path}`, { json });
    if (response.status !== 204) throw new Error(await response.text());
  };
  await post("messages", { message: script(...STEPS) });
  const asked = await waitFor(bench.test.log, session, "permission.requested");
  await post(`permissions/${asked.data.permission_id}/reply`, { reply: "once" });
  const question = await waitFor(bench.test.log, session, "question.requested");
  await post(`questions/${question.data.question_id}/reply`, { answers: [["red"]] });
  const tool = await waitFor(bench.test.log, session, "tool.requested");
  await post(`tools/${tool.data.request_id}/reply`, { output: "sunny" });
  await waitFor(bench.test.log, session, "tool.resolved");
  await post("interrupt", {});
}

describe("the author of", () => {
  it("an input, an answer and an interrupt is the id of the token", async () => {
    const { id, token } = await bench.token({ scope: "control" });
    await bench.as(token, "POST", "/v1/sessions/s", { json: { agent: "scripted" } });
    await act(token, "s");
    const events = await readAll(bench.test.log, "s");
    expect(ofType(events, "input.accepted")[0]?.data.by).toBe(id);
    expect(ofType(events, "permission.resolved")[0]?.data.metadata).toMatchObject({ by: id });
    expect(ofType(events, "custom").map(({ data }) => data)).toEqual([
      { name: "sluice.author", value: { question_id: expect.any(String), by: id } },
    ]);
    expect(ofType(events, "tool.resolved")[0]?.data.by).toBe(id);
    expect(ofType(events, "interrupt.requested")[0]?.data.by).toBe(id);
    for (const event of events) SluiceEvent.parse(event);
    expect(JSON.stringify(events)).not.toContain(token.split(".")[1]);
  });

  it("an answer is not in the plain view of a question", async () => {
    const { token } = await bench.token({ scope: "control" });
    await bench.as(token, "POST", "/v1/sessions/s", { json: { agent: "scripted" } });
    await act(token, "s");
    const plain = await (await bench.as(token, "GET", "/v1/sessions/s/events?limit=1000")).text();
    const { events } = JSON.parse(plain) as { events: SluiceEvent[] };
    expect(ofType(events, "question.resolved")[0]?.data).toEqual({
      question_id: expect.any(String),
      prompt: "Which?",
      options: ["red", "blue"],
      status: "answered",
      response: "red",
    });
    expect(plain).not.toContain("sluice.author");
  });

  it("what the server's own token does stays as it was", async () => {
    await bench.as(OPERATOR, "POST", "/v1/sessions/s", { json: { agent: "scripted" } });
    await act(OPERATOR, "s");
    const events = await readAll(bench.test.log, "s");
    expect(ofType(events, "input.accepted")[0]?.data.by).toBeUndefined();
    expect(ofType(events, "permission.resolved")[0]?.data.metadata).toMatchObject({ by: "universal" });
    expect(ofType(events, "custom")).toEqual([]);
    expect(ofType(events, "tool.resolved")[0]?.data.by).toBe("universal");
    expect(ofType(events, "interrupt.requested")[0]?.data.by).toBeUndefined();
  });

  it("events of other dialects is the token too", async () => {
    const { id, token } = await bench.token({ scope: "control" });
    const json = { prompt: script({ say: "hi" }), conversation: "n" };
    await (await bench.as(token, "POST", "/ndjson/stream", { json })).text();
    const run = {
      threadId: "g",
      runId: "r",
      messages: [{ id: "m", role: "user", content: script({ say: "hi" }) }],
      state: {},
      tools: [],
      context: [],
      forwardedProps: {},
    };
    await (await bench.as(token, "POST", "/ag-ui/scripted", { json: run })).text();
    const events = [{ type: "user.message", content: [{ type: "text", text: script({ say: "hi" }) }] }];
    await bench.as(token, "POST", "/anthropic/v1/sessions/sesn_n/events", { json: { events } });
    for (const [session, count] of [
      ["n", 2],
      ["g", 1],
    ] as const) {
      const inputs = ofType(await readAll(bench.test.log, session), "input.accepted");
      expect(inputs.map(({ data }) => data.by)).toEqual(Array.from({ length: count }, () => id));
    }
  });
});
