import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { EventDraft } from "../../src/contract/index.ts";
import { assistantTexts, expectLawful } from "../support/laws.ts";
import {
  ofType,
  openEngine,
  readAll,
  runTurn,
  say,
  script,
  SCRIPTED,
  waitFor,
  type TestEngine,
} from "../support/engine.ts";

describe("turns", () => {
  let test: TestEngine;
  beforeEach(async () => {
    test = await openEngine();
    await test.engine.create("s", SCRIPTED);
  });
  afterEach(() => test.close());

  it("has all output in order, from session.started on", async () => {
    const ended = await runTurn(test, "s", script({ say: "hello there" }));
    expect(ended.data).toMatchObject({ status: "completed", stop_reason: "end_turn" });
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(events[0]).toMatchObject({
      type: "session.started",
      sequence: 1,
      source: "daemon",
      synthetic: true,
    });
    expect(assistantTexts(events)).toEqual(["hello there"]);
    const message = ofType(events, "item.started").find((event) => event.data.item.role === "assistant");
    const deltas = ofType(events, "item.delta").filter(
      (event) => event.data.item_id === message?.data.item.item_id,
    );
    expect(deltas.map((event) => event.data.delta).join("")).toBe("hello there");
    expect(deltas.every((event) => event.source === "agent")).toBe(true);
  });

  it("keeps the native line beside every event of the agent", async () => {
    await runTurn(test, "s", script({ say: "raw" }));
    const events = await readAll(test.log, "s", true);
    const native = events.filter((event) => event.source === "agent");
    expect(native.length).toBeGreaterThan(0);
    for (const event of native) expect(event.raw, event.type).toBeTypeOf("object");
  });

  it("serves many turns in one process, and remembers", async () => {
    await runTurn(test, "s", "first");
    await runTurn(test, "s", script({ say: "$history" }));
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(ofType(events, "process.started")).toHaveLength(1);
    expect(assistantTexts(events).at(-1)).toContain("first");
  });

  it("queues messages in order while a turn runs", async () => {
    const turns = [
      await say(test.engine, "s", script({ sleep: 200 }, { say: "one" })),
      await say(test.engine, "s", script({ say: "two" })),
      await say(test.engine, "s", script({ say: "three" })),
    ];
    expect((await test.engine.info("s")).queued).toBeGreaterThanOrEqual(1);
    await waitFor(test.log, "s", "turn.ended", { where: (event) => event.data.turn_id === turns[2]?.turnId });
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(ofType(events, "turn.started").map((event) => event.data.turn_id)).toEqual(
      turns.map((turn) => turn.turnId),
    );
    expect(assistantTexts(events)).toEqual(["one", "two", "three"]);
  });

  it("accepts a repeated message with the same key once", async () => {
    const first = await say(test.engine, "s", script({ say: "once" }), "key-1");
    const again = await say(test.engine, "s", script({ say: "once" }), "key-1");
    expect(again).toEqual({ ...first, duplicate: true });
    await expect(say(test.engine, "s", "other words", "key-1")).rejects.toMatchObject({
      code: "idempotency_conflict",
    });
    await waitFor(test.log, "s", "turn.ended");
    await test.restart();
    expect(await say(test.engine, "s", script({ say: "once" }), "key-1")).toEqual({
      ...first,
      duplicate: true,
    });
    expect(assistantTexts(await readAll(test.log, "s"))).toEqual(["once"]);
  });

  it("really runs the tools", async () => {
    await runTurn(
      test,
      "s",
      script(
        { write: { path: "a.txt", content: "one\ntwo\n" } },
        { edit: { path: "a.txt", old: "two", new: "2" } },
        { shell: "cat a.txt; exit 3" },
      ),
    );
    const events = await readAll(test.log, "s");
    expectLawful(events);
    const results = ofType(events, "item.completed").filter(
      (event) => event.data.item.kind === "tool_result",
    );
    const parts = results.flatMap((event) => event.data.item.content);
    expect(parts).toContainEqual(expect.objectContaining({ type: "file_ref", action: "write" }));
    expect(parts).toContainEqual(
      expect.objectContaining({ type: "file_ref", action: "patch", diff: expect.stringContaining("+2") }),
    );
    expect(results.at(-1)?.data.item).toMatchObject({ status: "failed" });
    expect(results.at(-1)?.data.item.content[0]).toMatchObject({ type: "tool_result", output: "one\n2\n" });
    const files = await test.engine.files("s");
    expect(Buffer.from(await files.read("/home/user/workspace/a.txt")).toString()).toBe("one\n2\n");
  });

  it("works in the folder that it was given", async () => {
    const directory = await mkdtemp(join(tmpdir(), "sluice-here-"));
    await test.engine.create("here", { ...SCRIPTED, directory });
    await runTurn(test, "here", script({ write: { path: "made.txt", content: "here" } }));
    expect(await readFile(join(directory, "made.txt"), "utf8")).toBe("here");
    await rm(directory, { recursive: true });
  });

  it("adds usage up, per turn and per session", async () => {
    await runTurn(test, "s", script({ usage: { input_tokens: 10, output_tokens: 5 } }, { say: "a" }));
    const ended = await runTurn(
      test,
      "s",
      script({ usage: { input_tokens: 1, output_tokens: 2 } }, { say: "b" }),
    );
    expect(ended.data.usage).toMatchObject({ input_tokens: 1, output_tokens: 2 });
    expect((await test.engine.info("s")).usage).toMatchObject({ input_tokens: 11, output_tokens: 7 });
  });

  it("ends a turn that takes longer than its limit, and goes on", async () => {
    await test.engine.create("slow", { ...SCRIPTED, turnTimeoutMs: 200 });
    const ended = await runTurn(test, "slow", script({ sleep: 60_000 }));
    expect(ended.data).toMatchObject({
      status: "failed",
      stop_reason: "timeout",
      error: { code: "timeout" },
    });
    await test.engine.create("next", SCRIPTED);
    expect((await runTurn(test, "next", script({ say: "still here" }))).data.status).toBe("completed");
    expectLawful(await readAll(test.log, "slow"));
  });

  it("commits the agent's text before it looks for the file changes of the turn", async () => {
    const commits: (readonly EventDraft[])[] = [];
    await test.restart({ onCommit: (_session, events) => void commits.push(events) });
    await runTurn(test, "s", script({ say: "first" }));
    commits.length = 0;
    // The agent writes the text and the end of this turn at once.
    await runTurn(test, "s", script({ say: "second" }));
    expect(commits.findIndex((events) => events.some(isText))).toBeLessThan(
      commits.findIndex((events) => events.some(isEnd)),
    );
    expectLawful(await readAll(test.log, "s"));
  });

  it("reports a refusal as the turn's stop reason", async () => {
    const ended = await runTurn(test, "s", script({ refuse: "not that" }));
    expect(ended.data.stop_reason).toBe("refusal");
    expectLawful(await readAll(test.log, "s"));
  });

  it("keeps secrets of the session out of its log", async () => {
    await test.engine.create("secret", { ...SCRIPTED, env: { MY_API_KEY: "s3cret-value-123" } });
    await runTurn(test, "secret", script({ shell: "echo key=$MY_API_KEY" }));
    const text = JSON.stringify(await readAll(test.log, "secret", true));
    expect(text).not.toContain("s3cret-value-123");
    expect(text).toContain("[redacted:MY_API_KEY]");
  });
});

function isText(event: EventDraft): boolean {
  return event.type === "item.completed" && event.source === "agent";
}

function isEnd(event: EventDraft): boolean {
  return event.type === "turn.ended";
}
