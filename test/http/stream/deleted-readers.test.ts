import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readAll, SCRIPTED } from "../../support/engine.ts";
import { type AnthropicBench, BETA, KEY, openAnthropic } from "../anthropic/anthropic-bench.ts";
import { SseReader } from "../sse-reader.ts";

/** More than the socket buffers of both ends hold. */
const WORDS = 24;
const WORD = "many words ".repeat(1024 * 100);

describe("readers that stall while their session is deleted", () => {
  let bench: AnthropicBench;
  beforeAll(async () => {
    bench = await openAnthropic();
  });
  afterAll(() => bench.close());

  const headers = { authorization: `Bearer ${KEY}`, "anthropic-beta": BETA };
  const call = async (method: string, path: string): Promise<number> =>
    (await bench.call(method, path, { headers })).status;
  const stall = async (path: string): Promise<SseReader> => {
    const reader = await SseReader.open(bench.url + path, headers);
    reader.response.pause();
    return reader;
  };
  const fill = async (id: string): Promise<void> => {
    for (let n = 1; n <= WORDS; n++) await bench.test.engine.report(id, { message: `${n} ${WORD}` });
  };
  const rowsLeft = async (): Promise<number> => (await bench.test.log.retired()).length;

  it("read session.deleted in their dialects after the session is gone for all others", async () => {
    await bench.test.engine.create("s", SCRIPTED);
    const universal = await stall("/v1/sessions/s/events/sse?extensions=true");
    const managed = await stall("/anthropic/v1/sessions/s/events/stream");
    await fill("s");
    const head = (await bench.test.log.find("s"))?.head ?? 0;
    expect(await call("DELETE", "/v1/sessions/s")).toBe(204);

    expect(await call("GET", "/v1/sessions/s")).toBe(404);
    expect(await call("GET", "/v1/sessions/s/events")).toBe(404);
    expect(await call("DELETE", "/v1/sessions/s")).toBe(404);
    expect((await bench.test.engine.list({ limit: 10 })).sessions).toEqual([]);
    const namesake = await bench.test.engine.create("s", SCRIPTED);
    expect(namesake.eventCount).toBe(0);
    await bench.test.engine.report("s", { message: "of the namesake" });
    expect(await rowsLeft()).toBe(1);

    universal.response.resume();
    await universal.finished;
    expect(lastOf(universal)).toMatchObject({ type: "session.deleted", sequence: head + 1 });
    expect(universal.ids).toEqual(Array.from({ length: head + 1 }, (_, index) => index + 1));
    managed.response.resume();
    await managed.finished;
    expect(lastOf(managed)).toMatchObject({ type: "session.deleted" });
    expect(universal.text + managed.text).not.toContain("of the namesake");
    await expect.poll(rowsLeft, { timeout: 15_000 }).toBe(0);
    expect(JSON.stringify(await readAll(bench.test.log, "s"))).toContain("of the namesake");
    await bench.test.engine.remove("s");
    expect(bench.lines.filter((line) => line.level === "error")).toEqual([]);
  });

  it("leave nothing behind when the engine closes", async () => {
    await bench.test.engine.create("s", SCRIPTED);
    const reader = await stall("/v1/sessions/s/events/sse");
    await fill("s");
    await bench.test.engine.remove("s");
    expect(await rowsLeft()).toBe(1);
    await bench.test.engine.close();
    expect(await rowsLeft()).toBe(0);
    reader.cut();
    await bench.test.restart();
  });
});

function lastOf(reader: SseReader): { type?: string } {
  return JSON.parse(reader.frames.at(-1)?.data ?? "{}") as { type?: string };
}
