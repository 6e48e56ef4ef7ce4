import { chat, type StreamChunk, toolDefinition } from "@tanstack/ai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { sluiceStream, sluiceText } from "../../src/tanstack/index.ts";
import { type AgUiBench, openAgUi } from "../http/ag-ui/ag-ui-bench.ts";
import { ofType, readAll, script } from "../support/engine.ts";
import { type Chunk, collect, nameOf } from "./stack.ts";

let bench: AgUiBench;
beforeAll(async () => {
  bench = await openAgUi();
});
afterAll(() => bench.close());

const did: string[] = [];
const risky = toolDefinition({
  name: "risky",
  description: "what somebody has to allow",
  inputSchema: z.object({ what: z.string() }),
  needsApproval: true,
}).server(({ what }) => {
  did.push(what);
  return { did: what };
});

interface Approval {
  readonly id: string;
  readonly toolCallId: string;
}

const prompt = {
  role: "user" as const,
  content: script({ say: "before" }, { custom: { name: "risky", input: { what: "it" } } }, { say: "after" }),
};

describe("a tool that needs approval", () => {
  it("ends the run, and the answer starts another run that every reader finds (TS-35)", async () => {
    const place = { baseUrl: bench.url, agent: "scripted" };
    const run = (runId: string, more: object): Promise<Chunk[]> =>
      collect(
        chat({
          adapter: sluiceText(place),
          messages: [prompt],
          tools: [risky],
          threadId: "approval",
          runId,
          ...more,
        }) as AsyncIterable<StreamChunk>,
      );
    const first = await run("asks", {});
    const { outcome } = first.at(-1) as { outcome?: { interrupts: Approval[] } };
    const [approval] = outcome?.interrupts ?? [];
    if (!approval) throw new Error("nothing was asked");
    expect(did).toEqual([]);

    // The run waits, but its stream ends for a reader that knows the tools.
    const waiting = sluiceStream(place, { runId: "asks" }, { tools: [risky] });
    const seen = await collect(chunksOf(waiting.read("-1")));
    expect(seen.map(nameOf)).toEqual(first.map(nameOf).filter((name) => name !== "MESSAGES_SNAPSHOT"));
    expect((await waiting.snapshot()).at(-1)?.chunk).toMatchObject({ type: "RUN_FINISHED", runId: "asks" });

    const call = {
      role: "assistant" as const,
      content: "before",
      toolCalls: [
        {
          id: approval.toolCallId,
          type: "function" as const,
          function: { name: "risky", arguments: '{"what":"it"}' },
        },
      ],
    };
    const second = await run("answers", {
      messages: [prompt, call],
      parentRunId: "asks",
      resume: [{ interruptId: approval.id, status: "resolved", payload: { approved: true } }],
    });
    expect(did).toEqual(["it"]);
    expect(second.at(-1)).toMatchObject({ type: "RUN_FINISHED", runId: "answers" });
    const said = second.flatMap(({ type, delta = "" }) => (type === "TEXT_MESSAGE_CONTENT" ? [delta] : []));
    expect(said.join("")).toContain("after");
    expect(ofType(await readAll(bench.test.log, "approval"), "turn.started")).toHaveLength(1);

    const answered = sluiceStream(place, { runId: "answers" }, { tools: [risky] });
    const whole = await collect(chunksOf(answered.read("-1")));
    // The engine's own chunks about the tool are in no log.
    const ours = second.filter(({ metadata }) => metadata?.sluice !== undefined);
    expect(whole.map(nameOf)).toEqual(ours.map(nameOf));
    expect(whole.at(-1)).toMatchObject({ type: "RUN_FINISHED", runId: "answers" });
    const stored = await answered.snapshot();
    expect(stored.map(({ chunk }) => nameOf(chunk as Chunk))).toEqual(ours.map(nameOf));
    const middle = stored[2]?.offset ?? "";
    const rest = await collect(chunksOf(answered.read(middle)));
    expect(rest.map(nameOf)).toEqual(ours.map(nameOf).slice(3));
    // The replayed request equals the live one.
    expect((await collect(chunksOf(waiting.read("-1")))).map(nameOf)).toEqual(seen.map(nameOf));
  });

  it("continues within one call of chat() if the engine has the answer", async () => {
    const place = { baseUrl: bench.url, agent: "scripted" };
    const adapter = sluiceText(place);
    const base = {
      model: "scripted",
      logger: silent,
      threadId: "twice",
      runId: "twice-run",
      tools: [risky],
    } as unknown as Parameters<typeof adapter.chatStream>[0];
    const first = await collect(adapter.chatStream({ ...base, messages: [prompt] }));
    const { toolCallId = "" } = first.find(({ type }) => type === "TOOL_CALL_START") ?? {};
    const answer = { role: "tool" as const, content: "done", toolCallId };
    const messages = [prompt, { role: "assistant" as const, content: "before" }, answer];
    const second = await collect(adapter.chatStream({ ...base, messages }));
    expect(second.at(-1)).toMatchObject({ type: "RUN_FINISHED", runId: "twice-run" });
    const both = [...first.slice(0, -1), ...second.slice(1)].map(nameOf);
    for (const options of [{ tools: [risky] }, {}]) {
      const stream = sluiceStream(place, { runId: "twice-run" }, options);
      const told = await collect(chunksOf(stream.read("-1")));
      const names = told.map(nameOf).filter((name) => name !== "tool-input-available");
      expect(names).toEqual(both);
      expect(told.every(({ runId = "twice-run" }) => runId === "twice-run")).toBe(true);
      const stored = await stream.snapshot();
      expect(stored).toHaveLength(told.length);
      const late = stored.at(-3)?.offset ?? "";
      expect(await collect(chunksOf(stream.read(late)))).toHaveLength(2);
    }
  });
});

const silent = new Proxy({}, { get: () => () => false });

async function* chunksOf(stored: AsyncIterable<{ chunk: unknown }>): AsyncGenerator<unknown> {
  for await (const { chunk } of stored) yield chunk;
}
