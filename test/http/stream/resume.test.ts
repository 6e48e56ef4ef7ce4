import * as fc from "fast-check";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { EventDraft } from "../../../src/contract/index.ts";
import type { Dialect } from "../../../src/dialects/port.ts";
import type { StoredEventText } from "../../../src/dialects/port.ts";
import { range, SseReader, toFrames } from "../sse-reader.ts";
import { delta, ended, openStreamBench, type StreamBench } from "./stream-bench.ts";

const PRELUDE = ": sluice\nretry: 1000\n\n";

describe("a stream that is cut and resumed", () => {
  let bench: StreamBench;
  let whole: string;
  const view = encodeURIComponent(JSON.stringify({ extensions: true }));

  beforeAll(async () => {
    bench = await openStreamBench({
      kind: "sqlite",
      limits: { windowBytes: 8192, chunkBytes: 2048, chunkEvents: 32 },
    });
    for (let sent = 0; sent < 400; sent += 20) {
      await bench.append(
        range(sent, sent + 19).map((n) => (n % 7 === 0 ? started(n) : delta(`text ${n}\n`))),
      );
    }
    await bench.append([ended]);
    const reader = await SseReader.open(`${bench.url}/?view=${view}`);
    await reader.finished;
    whole = reader.text.slice(PRELUDE.length);
  });
  afterAll(() => bench.close());

  it("equals the uncut stream for every position of the cut", async () => {
    const cuts = fc.array(fc.integer({ min: 1, max: 60 }), { maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(cuts, fc.boolean(), async (lengths, byHeader) => {
        let joined = "";
        let last = 0;
        for (const length of [...lengths, Number.POSITIVE_INFINITY]) {
          const reader = await SseReader.open(
            byHeader ? `${bench.url}/?view=${view}&after=0` : `${bench.url}/?view=${view}&after=${last}`,
            byHeader && last > 0 ? { "last-event-id": String(last) } : {},
          );
          await Promise.race([reader.finished, reader.untilId(last + length)]);
          reader.cut();
          const frames = toFrames(reader.text).slice(0, length);
          joined += frames.map(({ id, data }) => `id: ${id}\ndata: ${data}\n\n`).join("");
          last = Number(frames.at(-1)?.id ?? last);
          if (joined.length >= whole.length) break;
        }
        expect(joined).toBe(whole);
      }),
      { numRuns: 30 },
    );
  });

  it("is the same, byte for byte, live and replayed", async () => {
    const live = await openStreamBench({ kind: "sqlite" });
    try {
      const reader = await SseReader.open(`${live.url}/?view=${view}`);
      for (let sent = 0; sent < 400; sent += 20) {
        await live.append(
          range(sent, sent + 19).map((n) => (n % 7 === 0 ? started(n) : delta(`text ${n}\n`))),
        );
        await reader.untilId(sent + 20);
      }
      await live.append([ended]);
      await reader.finished;
      expect(reader.text.slice(PRELUDE.length)).toBe(whole);
    } finally {
      await live.close();
    }
  });
});

describe("a dialect with a memory", () => {
  let bench: StreamBench;
  afterEach(() => bench.close());

  it("resumes in the middle of a turn with the state from the turn's start", async () => {
    bench = await openStreamBench({
      dialect: counting as unknown as Dialect<never, never>,
      limits: { windowBytes: 2048, chunkBytes: 512, chunkEvents: 8 },
    });
    for (let turn = 0; turn < 4; turn++) {
      await bench.append([started(turn), ...range(1, 300).map((n) => delta(`${n}`))]);
    }
    await bench.append([ended]);
    const uncut = await SseReader.open(`${bench.url}/`);
    await uncut.finished;
    expect(uncut.frames.filter((frame) => frame.id === undefined)).toHaveLength(1200);
    for (const after of [1, 2, 100, 301, 302, 599, 700, 1203]) {
      const resumed = await SseReader.open(`${bench.url}/?after=${after}`);
      await resumed.finished;
      const tail = uncut.text.slice(uncut.text.indexOf(`id: ${after}\n`));
      expect(resumed.text.slice(PRELUDE.length)).toBe(tail.slice(tail.indexOf("\n\n") + 2));
    }
  });
});

const started = (n: number): EventDraft => ({
  type: "turn.started",
  source: "daemon",
  data: { turn_id: `turn_${n}`, input_ids: [] },
});

/** Two frames for each delta with the count of the turn's frames; only the second has the id. */
const counting: Dialect<{ count: number }, object> = {
  id: "counting",
  memory: "turn",
  initial: () => ({ count: 0 }),
  project(state, event: StoredEventText) {
    if (event.type === "turn.started")
      return { state: { count: 0 }, frames: [{ event: "turn", data: "{}" }] };
    if (event.type !== "item.delta") return { state, frames: [], last: event.type === "session.ended" };
    const count = state.count + 1;
    return {
      state: { count },
      frames: [{ data: `{"before":${state.count}}` }, { data: `{"count":${count}}` }],
    };
  },
};
