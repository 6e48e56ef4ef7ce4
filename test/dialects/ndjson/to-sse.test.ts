import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ndjsonToSse, type NdjsonToSseOptions } from "../../../src/dialects/ndjson/index.ts";
import { collect, cutAt, type Sse, streamOf, textOf, toSse } from "./streams.ts";

const encoder = new TextEncoder();
const running = '{"type":"step","id":"a","name":"n","status":"running","args":{"x":1},"ts":1}';
const succeeded =
  '{"type":"step","id":"a","name":"n","status":"succeeded","result":[1],"durationMs":1,"ts":2}';
const result = '{"type":"result","message":"m","ts":3}';
const DONE = { type: "done" };

async function sse(lines: readonly string[], options: NdjsonToSseOptions = {}): Promise<Sse[]> {
  const source = streamOf([encoder.encode(lines.map((line) => `${line}\n`).join(""))]);
  return toSse(await textOf(source.pipeThrough(ndjsonToSse(options))));
}

const named = (frames: readonly Sse[]): string[] => frames.map(({ event }) => event);

describe("ndjsonToSse", () => {
  it("gives each line its event and its id, and closes with done (ND-15)", async () => {
    expect(await sse([running, succeeded, result])).toEqual([
      { event: "step", id: "1", data: JSON.parse(running) },
      { event: "step", id: "2", data: JSON.parse(succeeded) },
      { event: "result", id: "3", data: JSON.parse(result) },
      { event: "done", id: "4", data: DONE },
    ]);
  });

  it("leaves the logs out (ND-05)", async () => {
    const logs: string[] = [];
    const levels = ["debug", "info", "warn", "error"];
    const lines = levels.map((level) => `{"type":"log","level":"${level}","message":"m"}`);
    const frames = await sse([...lines, result], { onLog: ({ level }) => logs.push(level) });
    expect(named(frames)).toEqual(["result", "done"]);
    expect(logs).toEqual(levels);
  });

  it("closes after an error too, and gives no result (ND-16)", async () => {
    const frames = await sse(['{"type":"error","code":"model_timeout","message":"late"}', result]);
    expect(named(frames)).toEqual(["error", "done"]);
  });

  it.each([
    ["an unknown type", '{"type":"surprise"}'],
    ["malformed JSON", "{"],
    ["an array", "[1]"],
    ["null", "null"],
    ["a text", '"x"'],
  ])("ends with a protocol error for %s (ND-04, ND-20)", async (_, line) => {
    const rejected: string[] = [];
    const ignored: string[] = [];
    const frames = await sse([running, line, succeeded, result], {
      onRejected: (error) => rejected.push(error.line),
      onIgnored: (text) => ignored.push(text),
    });
    expect(named(frames)).toEqual(["step", "step", "error", "done"]);
    expect(frames[1]?.data).toMatchObject({ id: "a", status: "failed", error: "interrupted" });
    expect(frames[2]?.data).toMatchObject({ type: "error", code: "protocol_error" });
    expect(rejected).toEqual([line]);
    expect(ignored).toEqual([succeeded, result]);
  });

  it("drops such a line if it is not strict", async () => {
    expect(named(await sse([running, "nope", succeeded, result], { strict: false }))).toEqual([
      "step",
      "step",
      "result",
      "done",
    ]);
  });

  it("reports a stream without its last line as cut (ND-18)", async () => {
    const frames = await sse([running]);
    expect(named(frames)).toEqual(["step", "step", "error", "done"]);
    expect(frames[2]?.data).toMatchObject({ code: "stream_truncated" });
    expect(named(await sse([]))).toEqual(["error", "done"]);
  });

  it("closes open steps before the result", async () => {
    const frames = await sse([running, result]);
    expect(frames.map(({ data }) => (data as { status?: string }).status)).toEqual([
      "running",
      "failed",
      undefined,
      undefined,
    ]);
  });

  it("accepts progress, and starts a step that only has an end (ND-09)", async () => {
    expect(named(await sse([running, running, succeeded, result]))).toEqual([
      "step",
      "step",
      "step",
      "result",
      "done",
    ]);
    const [started, ended] = await sse([succeeded, result]);
    expect(started?.data).toMatchObject({ id: "a", status: "running" });
    expect(ended?.data).toMatchObject({ id: "a", status: "succeeded" });
  });

  it.each([[[running, succeeded, running]], [[running, succeeded, succeeded]]])(
    "refuses a step that goes on behind its end",
    async (lines) => {
      const frames = await sse([...lines, result]);
      expect(frames.at(-2)?.data).toMatchObject({ code: "protocol_error" });
    },
  );

  it("ignores lines after the end and stops the sender", async () => {
    let isCancelled = false;
    const source = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(encoder.encode(`${result}\n${running}\n`)),
      cancel: () => void (isCancelled = true),
    });
    const ignored: string[] = [];
    const text = await textOf(source.pipeThrough(ndjsonToSse({ onIgnored: (line) => ignored.push(line) })));
    expect(named(toSse(text))).toEqual(["result", "done"]);
    expect(ignored).toEqual([running]);
    await new Promise((resolve) => setImmediate(resolve));
    expect(isCancelled).toBe(true);
  });

  it("writes the same frames for any chunks", async () => {
    const text = [
      running,
      '{"type":"log","level":"info","message":"é😀"}',
      "",
      succeeded,
      `${result}\r`,
    ].join("\n");
    const bytes = encoder.encode(text);
    const whole = await textOf(streamOf([bytes]).pipeThrough(ndjsonToSse()));
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat()), async (places) => {
        const cut = await textOf(streamOf(cutAt(bytes, places)).pipeThrough(ndjsonToSse()));
        expect(cut).toBe(whole);
      }),
      { numRuns: 100 },
    );
  });

  it("keeps the rules of a turn for any input", async () => {
    const ids = fc.constantFrom("a", "b", "c");
    const status = fc.constantFrom("running", "succeeded", "failed");
    const step = fc.record({ type: fc.constant("step"), id: ids, name: fc.constant("n"), status });
    const other = fc.constantFrom(
      { type: "log", level: "info", message: "x" },
      { type: "result", message: "m" },
      { type: "error", code: "c", message: "m" },
      { type: "wrong" },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(fc.oneof({ weight: 6, arbitrary: step }, other)), async (lines) => {
        const frames = await sse(lines.map((line) => JSON.stringify(line)));
        expect(frames.map(({ id }) => Number(id))).toEqual(frames.map((_, index) => index + 1));
        expect(
          named(frames)
            .slice(0, -2)
            .every((event) => event === "step"),
        ).toBe(true);
        expect(named(frames).at(-2)).toMatch(/^(result|error)$/);
        expect(named(frames).at(-1)).toBe("done");
        expectSteps(frames);
      }),
      { numRuns: 200 },
    );
  });

  it("removes carriage returns of the sender", async () => {
    const frames = await sse(['{"type":"result",\r"message":"m"}']);
    expect(frames[0]?.data).toEqual({ type: "result", message: "m" });
  });

  it("fails with its upstream: the caller cleans up", async () => {
    const source = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.error(new Error("aborted"));
      },
    });
    await expect(collect(source.pipeThrough(ndjsonToSse()))).rejects.toThrow("aborted");
  });
});

/** Every step is running first, then ends once. */
function expectSteps(frames: readonly Sse[]): void {
  const steps = new Map<string, string[]>();
  for (const { event, data } of frames) {
    const { id, status } = data as { id: string; status: string };
    if (event === "step") steps.set(id, [...(steps.get(id) ?? []), status]);
  }
  for (const seen of steps.values()) {
    expect(seen.length).toBeGreaterThanOrEqual(2);
    expect(seen.slice(0, -1).every((status) => status === "running")).toBe(true);
    expect(seen.at(-1)).not.toBe("running");
  }
}
