import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { processesWith, readAll, script, waitFor } from "../../support/engine.ts";
import { expectLawful } from "../../support/laws.ts";
import { messagesOf, type NdjsonBench, openNdjson } from "./ndjson-bench.ts";

let bench: NdjsonBench;

beforeAll(async () => {
  bench = await openNdjson();
});

afterAll(() => bench.close());

describe("a reader that disconnects", () => {
  const start = async (body: object): Promise<{ abort(): void; conversation: string; turn: string }> => {
    const abort = new AbortController();
    const response = await bench.post("/stream", body, { signal: abort.signal });
    const header = (name: string): string => response.headers.get(name) ?? "";
    return {
      abort: () => abort.abort(),
      conversation: header("sluice-conversation"),
      turn: header("sluice-turn-id"),
    };
  };
  const running = async (session: string): Promise<void> => {
    await waitFor(bench.test.log, session, "item.delta", { where: ({ data }) => data.delta === "on\n" });
  };

  it("ends its run and the process tree, and the log has the reason (ND-25, ND-27)", async () => {
    const run = await start({
      prompt: script({ shell: "echo on; sleep 7171; echo never" }, { say: "never" }),
    });
    await running(run.conversation);
    expect(await processesWith("sleep 7171")).not.toEqual([]);
    run.abort();
    const ended = await waitFor(bench.test.log, run.conversation, "turn.ended");
    expect(ended.data).toMatchObject({ status: "interrupted", turn_id: run.turn });
    await waitFor(bench.test.log, run.conversation, "process.ended", { after: ended.sequence });
    expect(await processesWith("sleep 7171")).toEqual([]);
    expect(await processesWith(`spools/${run.conversation}/`)).toEqual([]);
    const events = await readAll(bench.test.log, run.conversation);
    expectLawful(events);
    expect(events.filter(({ type }) => type === "checkpoint.created")).toEqual([]);
    expect((await messagesOf(bench, run.conversation)).map(({ role }) => role)).toEqual(["user"]);
  });

  it("also ends an agent that ignores the interrupt", async () => {
    const run = await start({ prompt: script({ shell: "trap '' INT TERM; echo on; sleep 7272 & wait" }) });
    await running(run.conversation);
    run.abort();
    const ended = await waitFor(bench.test.log, run.conversation, "turn.ended");
    expect(ended.data.status).toBe("interrupted");
    await waitFor(bench.test.log, run.conversation, "process.ended", { after: ended.sequence });
    expect(await processesWith("sleep 7272")).toEqual([]);
  });

  it("leaves the conversation usable", async () => {
    const run = await start({ conversation: "again", prompt: script({ shell: "echo on; sleep 7373" }) });
    await running("again");
    run.abort();
    await bench.ended("again", run.turn);
    const { lines } = await bench.run("again", { say: "$history" });
    expect(lines.at(-1)).toMatchObject({ type: "result", message: expect.stringContaining("sleep 7373") });
  });

  it("ends only its own run, a queued one at its start", async () => {
    const first = await start({ conversation: "queue", prompt: script({ sleep: 700 }, { say: "first" }) });
    await waitFor(bench.test.log, "queue", "turn.started");
    const second = await start({ conversation: "queue", prompt: script({ sleep: 60_000 }) });
    second.abort();
    await bench.ended("queue", second.turn);
    const ends = (await readAll(bench.test.log, "queue")).filter((event) => event.type === "turn.ended");
    expect(ends.map(({ data }) => [data.turn_id, data.status])).toEqual([
      [first.turn, "completed"],
      [second.turn, "interrupted"],
    ]);
    first.abort();
  });

  it("does not end its run without cancelOnDisconnect", async () => {
    const prompt = script({ shell: "echo on; sleep 1" }, { say: "finished" });
    const run = await start({ prompt, cancelOnDisconnect: false });
    await running(run.conversation);
    run.abort();
    const ended = await waitFor(bench.test.log, run.conversation, "turn.ended");
    expect(ended.data.status).toBe("completed");
    expect((await messagesOf(bench, run.conversation)).at(-1)).toMatchObject({ content: "finished" });
  });

  it("leaves nothing behind", async () => {
    await expect.poll(() => bench.app.streams.feeds).toBe(0);
    expect(bench.lines).toEqual([]);
  });
});
