import type { ServerResponse } from "node:http";
import { createParser } from "eventsource-parser";
import { afterEach, describe, expect, it } from "vitest";
import { sse } from "../../../src/http/stream/sse.ts";
import { SseReader } from "../sse-reader.ts";
import { delta, ended, openStreamBench, type StreamBench } from "./stream-bench.ts";

describe("the SSE writer", () => {
  let bench: StreamBench;
  afterEach(() => bench.close());

  it("sends headers for proxies, and a first byte at once", async () => {
    bench = await openStreamBench();
    const reader = await SseReader.open(bench.url);
    expect(reader.response.headers).toMatchObject({
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache, no-transform",
      "x-accel-buffering": "no",
      connection: "keep-alive",
    });
    await reader.until((text) => text.includes("retry: 1000\n\n"));
    reader.cut();
  });

  it("pings a silent reader, and no paused one", async () => {
    bench = await openStreamBench({ pingMs: 5 });
    const reader = await SseReader.open(`${bench.url}/?name=silent`);
    await reader.until((text) => text.split(": ping\n\n").length > 3);
    expect(reader.frames).toEqual([]);

    const paused = await SseReader.open(`${bench.url}/?name=paused`);
    paused.response.pause();
    const big = "x".repeat(100_000);
    const outgoing = bench.outgoing.get("paused");
    if (!outgoing) throw new Error("The paused reader never came.");
    do {
      await bench.append([delta(big)]);
      await new Promise((resolve) => setTimeout(resolve, 1));
    } while (await isMoving(outgoing));
    const held = outgoing.writableLength;
    const before = reader.text.split(": ping\n\n").length;
    await reader.until((text) => text.split(": ping\n\n").length > before + 5);
    expect(outgoing.writableLength).toBe(held);
    reader.cut();
    paused.cut();
  });

  it("has one id and one line of data for each event, with any content", async () => {
    bench = await openStreamBench();
    const texts = [
      "a\nb",
      "c\r\nd\r",
      "\u2028 and \u2029",
      "\u0000\u0007\u001b[31m",
      "data: x\n\nid: 99\n\n",
      "🜂 é 漢",
      "\ud800",
    ];
    await bench.append([...texts.map((text) => delta(text)), ended]);
    const reader = await SseReader.open(bench.url);
    await reader.finished;
    const seen: { id: string | undefined; delta: string }[] = [];
    const parser = createParser({
      onEvent: ({ id, data }) => seen.push({ id, delta: JSON.parse(data).data.delta }),
    });
    parser.feed(reader.text);
    expect(seen.slice(0, -1)).toEqual(texts.map((delta, index) => ({ id: String(index + 1), delta })));
    for (const line of reader.text.split("\n")) expect(line).toMatch(/^$|^: |^(id|data|retry): ./);
  });

  it("inserts the native line unchanged, on one line", async () => {
    bench = await openStreamBench();
    await bench.append([delta("x", { raw: '{"n":1.0,\r\n "big":12345678901234567890}' }), delta("y"), ended]);
    const view = encodeURIComponent(JSON.stringify({ includeRaw: true }));
    const reader = await SseReader.open(`${bench.url}/?view=${view}`);
    await reader.finished;
    const [first, second] = reader.frames;
    expect(first?.data).toMatch(/,"raw":\{"n":1\.0,  ?"big":12345678901234567890\}\}$/);
    expect(JSON.parse(second?.data ?? "")).not.toHaveProperty("raw");
  });

  it("is the same in process, without a socket", async () => {
    bench = await openStreamBench();
    await bench.append([delta("x"), delta("y"), ended]);
    const reader = await SseReader.open(bench.url);
    await reader.finished;
    const response = await bench.app.request("/");
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(await response.text()).toBe(reader.text);
    expect(bench.meter.readers).toBe(0);
  });

  it("releases a cancelled reader in process, and gives a slow one no more than it reads", async () => {
    bench = await openStreamBench({ limits: { chunkBytes: 1024, chunkEvents: 8 } });
    await bench.append(Array.from({ length: 200 }, () => delta("z".repeat(10_000))));
    const response = await bench.app.request("/");
    const reader = response.body?.getReader();
    await reader?.read();
    await expect.poll(() => bench.meter.bytes).toBeGreaterThan(0);
    expect(bench.meter.bytes).toBeLessThan(500_000);
    await reader?.cancel();
    expect(bench.meter.readers).toBe(0);
    expect(bench.streams.feeds).toBe(0);
  });

  it("answers HEAD with the headers alone", async () => {
    bench = await openStreamBench();
    const response = await fetch(bench.url, { method: "HEAD" });
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(bench.meter.readers).toBe(0);
  });
});

describe("the framing", () => {
  it("splits lines of data so that a parser joins them again", () => {
    const seen: unknown[] = [];
    const parser = createParser({ onEvent: (event) => seen.push(event) });
    parser.feed(sse.frame({ event: "step", data: "{\r\n1\r2\n3}" }, 7) + sse.frame({ data: "4" }, undefined));
    expect(seen).toEqual([
      { event: "step", id: "7", data: "{\n1\n2\n3}" },
      { event: undefined, id: undefined, data: "4" },
    ]);
  });
});

/** Whether written bytes still leave the socket. */
async function isMoving(outgoing: ServerResponse): Promise<boolean> {
  const before = outgoing.writableLength;
  if (before === 0) return true;
  await new Promise((resolve) => setTimeout(resolve, 20));
  return outgoing.writableLength !== before;
}
