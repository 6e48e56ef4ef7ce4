import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createClient, type SluiceClient } from "../../../src/client/index.ts";
import { ofType, readAll, say, script, waitFor } from "../../support/engine.ts";
import { type AppBench, openApp, problemOf } from "../app-bench.ts";

let bench: AppBench;
let client: SluiceClient;

beforeAll(async () => {
  bench = await openApp();
  client = createClient({ url: bench.url });
});

afterAll(() => bench.close());

const ask = async (session: string): Promise<string> => {
  await client.sessions.create(session, { agent: "scripted" });
  const question = { question: { prompt: "which?", options: ["a", "b"] } };
  const { after } = await say(bench.test.engine, session, script(question));
  const { data } = await waitFor(bench.test.log, session, "question.requested", { after });
  return data.question_id;
};

describe("a rejected question", () => {
  it.each([
    ["with words", { message: "neither: ask me tomorrow" }, "neither: ask me tomorrow"],
    ["without words", undefined, "The question was rejected."],
  ])("%s reaches the log and the agent", async (name, options, told) => {
    const session = name.replace(" ", "-");
    await client.rejectQuestion(session, await ask(session), options);
    await waitFor(bench.test.log, session, "turn.ended");
    const events = await readAll(bench.test.log, session);
    const [resolved] = ofType(events, "question.resolved");
    expect(resolved?.data.status).toBe("rejected");
    expect(resolved?.data.response).toBe(options?.message);
    expect(JSON.stringify(ofType(events, "item.completed"))).toContain(told);
  });

  it("has words of its own schema", async () => {
    const id = await ask("strict");
    for (const json of [{ message: "" }, { reason: "no" }, []]) {
      const refused = await bench.call("POST", `/v1/sessions/strict/questions/${id}/reject`, { json });
      expect((await problemOf(refused)).status).toBe(400);
    }
  });
});

describe("a paused session that is busy", () => {
  it("says that it is paused", async () => {
    await client.sessions.create("paused", { agent: "scripted" });
    await say(bench.test.engine, "paused", script({ sleep: 60_000 }));
    await waitFor(bench.test.log, "paused", "turn.started");
    await client.pause("paused");
    const detail = expect.stringMatching(/paused.*resume it first/) as string;
    await expect(client.sendMessage("paused", { message: "hi", delivery: "alone" })).rejects.toMatchObject({
      code: "session_busy",
      message: detail,
    });
    await expect(client.sessions.update("paused", { model: "other" })).rejects.toMatchObject({
      code: "session_busy",
      message: detail,
    });
  });
});

describe("the home page", () => {
  it("leads to the documentation", async () => {
    expect(await (await bench.call("GET", "/")).text()).toContain('<a href="/docs/">');
  });
});
