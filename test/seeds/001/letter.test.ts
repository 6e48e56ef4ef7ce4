import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, collect, KEY, openAnthropic } from "../../http/anthropic/anthropic-bench.ts";
import {
  history,
  isRunning,
  makeSession,
  message,
  ofType,
  text,
  turn,
  watch,
  wordsOf,
} from "../../http/anthropic/session-bench.ts";

/** Sentences of the page and of its specification that no other test covers. */
describe("seed 001, to the letter", () => {
  let bench: AnthropicBench;
  beforeAll(async () => {
    bench = await openAnthropic();
  });
  afterAll(() => bench.close());

  it("user.interrupt while idle is answered with an event that is in the list, and stops nothing", async () => {
    const { id } = await makeSession(bench);
    await turn(bench, id, { say: "before" });
    const { data } = await bench.beta.sessions.events.send(id, { events: [{ type: "user.interrupt" }] });
    const listed = ofType(await history(bench, id), "user.interrupt");
    expect(listed).toMatchObject([{ id: (data as { id: string }[])[0]?.id }]);
    expect(wordsOf(await turn(bench, id, { say: "after" }))).toEqual(["after"]);
  });

  it("a second user.interrupt for the same turn is in the list, too", async () => {
    const { id } = await makeSession(bench);
    await watch(bench, id, () => bench.send(id, message(text({ sleep: 60_000 }))), isRunning);
    const interrupts = await bench.send(id, { type: "user.interrupt" }, { type: "user.interrupt" });
    const ids = (interrupts.data as { id: string }[]).map((event) => event.id);
    const listed = ofType(await history(bench, id), "user.interrupt").map((event) => event.id);
    expect(listed).toEqual(ids);
  });

  it("a document's title and context are kept, and reach the agent", async () => {
    const { id } = await makeSession(bench);
    const document = {
      type: "document",
      source: { type: "text", media_type: "text/plain", data: "the words" },
      title: "Input of June",
      context: "From the finance team",
    };
    await turn(bench, id, { say: "ready" });
    const sent = { type: "user.message", content: [{ type: "text", text: "Read it." }, document] };
    await bench.send(id, sent);
    const [told] = ofType(await history(bench, id), "user.message").slice(-1);
    expect(told?.content).toMatchObject(sent.content);
    const words = wordsOf(await turn(bench, id, { say: "$history" })).join("\n");
    expect(words).toContain("Input of June");
    expect(words).toContain("From the finance team");
  });

  it("session.updated leaves out metadata that was cleared to empty", async () => {
    const { id } = await makeSession(bench, { session: { metadata: { colour: "blue" } } });
    await turn(bench, id, { say: "hi" });
    await bench.beta.sessions.update(id, { metadata: { colour: null } as never });
    await bench.beta.sessions.update(id, { metadata: { colour: "red" } });
    const updates = ofType(await history(bench, id), "session.updated");
    expect(updates).toHaveLength(2);
    expect(updates[0]).not.toHaveProperty("metadata");
    expect(updates[1]).toMatchObject({ metadata: { colour: "red" } });
  });

  it("polled work carries a secret with a sessions_token that opens the session, and no other answer does", async () => {
    const { id, environmentId } = await makeSession(bench, { selfHosted: true });
    await bench.send(id, message(text({ say: "hi" })));
    const work = await bench.beta.environments.work.poll(environmentId, { block_ms: 900 } as never);
    const secret = (work as { secret?: string | null } | null)?.secret ?? "";
    const { sessions_token: token } = JSON.parse(Buffer.from(secret, "base64url").toString());
    expect(token).toBe(KEY);
    const listed = await collect(bench.beta.environments.work.list(environmentId));
    expect(listed).toMatchObject([{ data: { id }, secret: null }]);
  });
});
