import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type AssistantSandboxNDJSONLine,
  createNdjsonParser,
  createNdjsonTap,
  NdjsonError,
  parseLine,
  RunError,
} from "../../../src/dialects/ndjson/index.ts";
import { collect, cutAt, streamOf } from "./streams.ts";

const encoder = new TextEncoder();

const lines: fc.Arbitrary<AssistantSandboxNDJSONLine> = fc.oneof(
  fc.record({
    type: fc.constant("log" as const),
    level: fc.constantFrom("debug" as const, "info" as const, "warn" as const, "error" as const),
    message: fc.string({ unit: "binary" }),
    ts: fc.nat(),
  }),
  fc.record({
    type: fc.constant("step" as const),
    id: fc.string({ minLength: 1 }),
    name: fc.string({ unit: "grapheme" }),
    status: fc.constantFrom("running" as const, "succeeded" as const, "failed" as const),
    args: fc.jsonValue(),
  }),
  fc.record({ type: fc.constant("result" as const), message: fc.string({ unit: "grapheme" }) }),
  fc.record({ type: fc.constant("error" as const), code: fc.string(), message: fc.string() }),
);

// Through JSON, to leave out values that JSON cannot hold (-0, lone surrogates).
const wire = fc.array(lines).map((all) => {
  const texts = all.map((line) => JSON.stringify(line));
  return { texts, values: texts.map((text) => JSON.parse(text) as AssistantSandboxNDJSONLine) };
});

describe("parseLine", () => {
  it.each([
    ['{"type":"log","level":"info","message":"Loaded 3 skills","ts":1700000000000}'],
    ['{"type":"step","id":"s","name":"n","status":"running","args":{"nodeType":"inference"},"ts":1}'],
    ['{"type":"step","id":"s","name":"n","status":"succeeded","result":{"nodeId":"x"},"durationMs":412}'],
    ['{"type":"step","id":"s","name":"n","status":"failed","error":"no"}'],
    ['{"type":"result","message":"Added an Inference node…"}'],
    ['{"type":"error","code":"model_timeout","message":"Provider timed out after 60s"}'],
  ])("takes %s", (text) => {
    expect(parseLine(text)).toEqual(JSON.parse(text));
  });

  it("ignores fields that the page does not define", () => {
    expect(parseLine('{"type":"result","message":"m","more":1}')).toEqual({ type: "result", message: "m" });
  });

  // ND-04, ND-20
  it.each([
    ["an unknown type", '{"type":"delta","text":"x"}', /"delta"/],
    ["no type", '{"message":"x"}', /missing/],
    ["an inherited name for a type", '{"type":"constructor"}', /none of log, step, result and error/],
    ["broken JSON", '{"type":"log"', /not JSON/],
    ["an array", "[]", /not an object/],
    ["null", "null", /not an object/],
    ["a text", '"log"', /not an object/],
    ["a number", "1", /not an object/],
    ["a level that is none", '{"type":"log","level":"fatal","message":"x"}', /level/],
    ["a status that is none", '{"type":"step","id":"a","name":"b","status":"done"}', /status/],
    ["a step without id", '{"type":"step","name":"b","status":"running"}', /id/],
    ["a time that is none", '{"type":"result","message":"x","ts":"now"}', /ts/],
    ["a result without message", '{"type":"result"}', /message/],
    ["an error without code", '{"type":"error","message":"x"}', /code/],
    ["an error that is no text", '{"type":"step","id":"a","name":"b","status":"failed","error":{}}', /error/],
  ])("refuses %s", (_, text, why) => {
    expect(() => parseLine(text)).toThrow(NdjsonError);
    expect(() => parseLine(text)).toThrow(why);
  });
});

describe("createNdjsonParser", () => {
  it("gives the same lines for any chunks", async () => {
    await fc.assert(
      fc.asyncProperty(wire, fc.array(fc.nat()), fc.boolean(), async ({ texts, values }, places, ends) => {
        const bytes = encoder.encode(texts.join("\n") + (ends ? "\n" : ""));
        const parsed = await collect(streamOf(cutAt(bytes, places)).pipeThrough(createNdjsonParser()));
        expect(parsed).toEqual(values);
      }),
      { numRuns: 150 },
    );
  });

  it("gives the same lines from chunks of text, also with a split character", async () => {
    const text = `${JSON.stringify({ type: "result", message: "a 😀 b" })}\n`;
    for (let at = 0; at <= text.length; at += 1) {
      const stream = streamOf([text.slice(0, at), text.slice(at)]);
      expect(await collect(stream.pipeThrough(createNdjsonParser()))).toEqual([
        { type: "result", message: "a 😀 b" },
      ]);
    }
  });

  it("accepts blank lines, CR, a byte order mark and a missing last newline (ND-03)", async () => {
    const text =
      '\uFEFF\r\n\n  \n{"type":"result","message":"x"}\r\n\n{"type":"error","code":"c","message":"m"}';
    const parsed = await collect(streamOf([encoder.encode(text)]).pipeThrough(createNdjsonParser()));
    expect(parsed).toEqual([
      { type: "result", message: "x" },
      { type: "error", code: "c", message: "m" },
    ]);
  });

  it("fails for an invalid line with the reason", async () => {
    const rejected: NdjsonError[] = [];
    const parser = createNdjsonParser({ onRejected: (error) => rejected.push(error) });
    const stream = streamOf([encoder.encode('{"type":"nope"}\n')]).pipeThrough(parser);
    await expect(collect(stream)).rejects.toThrow(NdjsonError);
    expect(rejected.map(({ line, code }) => [line, code])).toEqual([['{"type":"nope"}', "protocol_error"]]);
  });

  it("drops such lines if it is not strict", async () => {
    const rejected: string[] = [];
    const parser = createNdjsonParser({
      strict: false,
      maxLineBytes: 40,
      onRejected: ({ reason }) => rejected.push(reason),
    });
    const good = '{"type":"result","message":"x"}';
    const pieces = [
      encoder.encode(`${good}\n{"type":"nope"}\n`),
      encoder.encode(`{"type":"result","message":"${"y".repeat(100)}"}\n`),
      Uint8Array.of(0x22, 0xff, 0x22, 0x0a),
      encoder.encode(good),
    ];
    expect(await collect(streamOf(pieces).pipeThrough(parser))).toHaveLength(2);
    expect(rejected).toHaveLength(3);
    expect(rejected[1]).toMatch(/the limit is 40/);
    expect(rejected[2]).toMatch(/UTF-8/);
  });

  it("does not buffer a line beyond the limit (ND-21)", async () => {
    const piece = new Uint8Array(1024 * 1024).fill(0x78);
    let given = 0;
    const endless = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          if (given === 400) return controller.close();
          given += 1;
          controller.enqueue(piece);
        },
      },
      { highWaterMark: 0 },
    );
    const before = process.memoryUsage().arrayBuffers;
    let most = 0;
    const parser = createNdjsonParser({
      strict: false,
      maxLineBytes: 1024 * 1024,
      onRejected: () => (most = process.memoryUsage().arrayBuffers - before),
    });
    expect(await collect(endless.pipeThrough(parser))).toEqual([]);
    expect(given).toBe(400);
    expect(most).toBeLessThan(100 * 1024 * 1024);
  });

  it("accepts a result of 5 MB (ND-12)", async () => {
    const message = "0123456789".repeat(500_000);
    const bytes = encoder.encode(`${JSON.stringify({ type: "result", message })}\n`);
    const pieces = Array.from({ length: Math.ceil(bytes.length / 65_536) }, (_, index) =>
      bytes.slice(index * 65_536, (index + 1) * 65_536),
    );
    expect(await collect(streamOf(pieces).pipeThrough(createNdjsonParser()))).toEqual([
      { type: "result", message },
    ]);
  });

  it("reads no more than its reader takes (ND-35)", async () => {
    let pulled = 0;
    const source = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          pulled += 1;
          controller.enqueue(encoder.encode(`{"type":"log","level":"info","message":"${pulled}"}\n`));
        },
      },
      { highWaterMark: 0 },
    );
    const reader = source.pipeThrough(createNdjsonParser()).getReader();
    for (let count = 0; count < 10; count += 1) await reader.read();
    await new Promise((resolve) => setImmediate(resolve));
    expect(pulled).toBeLessThan(15);
    await reader.cancel();
  });

  it("ends with its signal", async () => {
    const abort = new AbortController();
    const source = new ReadableStream<Uint8Array>({});
    const reading = collect(source.pipeThrough(createNdjsonParser({ signal: abort.signal })));
    abort.abort(new Error("enough"));
    await expect(reading).rejects.toThrow("enough");
  });
});

describe("createNdjsonTap", () => {
  it("passes the bytes through unchanged and gives the response (ND-23)", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat()), fc.string(), async (places, junk) => {
        const text = `${junk.replaceAll("\n", " ")}\n{"type":"result", "message":"the response"}`;
        const bytes = encoder.encode(text);
        const tap = createNdjsonTap();
        const out = await collect(streamOf(cutAt(bytes, places)).pipeThrough(tap));
        expect(Buffer.concat(out).equals(Buffer.from(bytes))).toBe(true);
        expect(await tap.response).toBe("the response");
      }),
      { numRuns: 50 },
    );
  });

  it("fails with the run's error, or without an end", async () => {
    const read = async (text: string): Promise<unknown> => {
      const tap = createNdjsonTap();
      await collect(streamOf([encoder.encode(text)]).pipeThrough(tap));
      return tap.response.catch((error: unknown) => error);
    };
    const failed = await read('{"type":"error","code":"model_timeout","message":"too late"}\n');
    expect(failed).toBeInstanceOf(RunError);
    expect(failed).toMatchObject({ code: "model_timeout", message: "too late" });
    expect(await read('{"type":"log","level":"info","message":"x"}\n')).toMatchObject({
      code: "stream_truncated",
    });
  });
});
