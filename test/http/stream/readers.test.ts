import { afterEach, describe, expect, it } from "vitest";
import { range, SseReader } from "../sse-reader.ts";
import { delta, ended, openStreamBench, type LogKind, type StreamBench } from "./stream-bench.ts";

describe.each<LogKind>(["memory", "sqlite"])("50,000 events from a %s log", (kind) => {
  let bench: StreamBench;
  afterEach(() => bench.close());

  it("reach one fast, one paused and ten normal readers exactly once, in bounded memory", async () => {
    const total = 50_000;
    bench = await openStreamBench({ kind });
    const fast = await SseReader.open(`${bench.url}/?name=fast`);
    const paused = await SseReader.open(`${bench.url}/?name=paused`);
    paused.response.pause();
    const normal = await Promise.all(
      range(1, 10).map((n) => SseReader.open(`${bench.url}/?name=normal-${n}`)),
    );

    let buffered = 0;
    for (let sent = 0; sent < total - 1; sent += 100) {
      const size = Math.min(100, total - 1 - sent);
      await bench.append(range(sent + 1, sent + size).map((n) => delta(`delta number ${n}`)));
      await new Promise((resolve) => setImmediate(resolve));
      buffered = Math.max(buffered, bench.outgoing.get("paused")?.writableLength ?? 0);
    }
    await bench.append([ended]);
    await Promise.all([fast.finished, ...normal.map((reader) => reader.finished)]);

    const expected = range(1, total);
    expect(fast.ids).toEqual(expected);
    for (const reader of normal) expect(reader.text === fast.text).toBe(true);

    buffered = Math.max(buffered, bench.outgoing.get("paused")?.writableLength ?? 0);
    expect(buffered, "bytes that the server holds for the paused reader").toBeLessThan(512 * 1024);
    expect(buffered, "it really was paused").toBeGreaterThan(0);
    expect(bench.meter.readers).toBe(1);

    paused.response.resume();
    await paused.finished;
    expect(paused.text === fast.text).toBe(true);
    expect(bench.problems).toEqual([]);
  });
});

describe("a feed", () => {
  let bench: StreamBench;
  afterEach(() => bench.close());

  it("is removed with its last reader and shared by readers of one view only", async () => {
    bench = await openStreamBench();
    const open = (view: object) =>
      SseReader.open(`${bench.url}/?view=${encodeURIComponent(JSON.stringify(view))}`);
    const readers = [await open({}), await open({}), await open({ extensions: true })];
    expect(bench.streams.feeds).toBe(2);
    await bench.append([delta("x")]);
    await Promise.all(readers.map((reader) => reader.untilId(1)));
    for (const reader of readers) reader.cut();
    await expect.poll(() => bench.streams.feeds).toBe(0);
    expect(bench.meter.readers).toBe(0);
  });

  it("serves readers that join at every cursor while it runs", async () => {
    bench = await openStreamBench({ limits: { windowBytes: 4096, chunkBytes: 1024, chunkEvents: 16 } });
    const readers: { after: number; reader: SseReader }[] = [];
    for (let sent = 0; sent < 300; sent += 7) {
      await bench.append(range(sent + 1, sent + 7).map((n) => delta(`delta ${n}`)));
      const after = (sent * 13) % (sent + 8);
      readers.push({ after, reader: await SseReader.open(`${bench.url}/?after=${after}`) });
    }
    await bench.append([ended]);
    const last = (await bench.log.find("s"))?.head ?? 0;
    for (const { after, reader } of readers) {
      await reader.finished;
      expect(reader.ids).toEqual(range(after + 1, last));
    }
  });

  it("ends the streams of a deleted session", async () => {
    bench = await openStreamBench();
    const reader = await SseReader.open(`${bench.url}/`);
    await bench.append([delta("x")]);
    await reader.untilId(1);
    await bench.log.remove("s");
    await reader.finished;
    expect(bench.problems).toEqual([]);
  });

  it("is cut, not ended, when the server closes", async () => {
    bench = await openStreamBench();
    const reader = await SseReader.open(`${bench.url}/`);
    await bench.append([delta("x")]);
    await reader.untilId(1);
    bench.app.cutStreams();
    await expect(reader.finished).rejects.toThrow("aborted");
  });
});
