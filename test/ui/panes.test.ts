import { describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../src/contract/index.ts";
import type { Span } from "../../src/ui/log/protocol.ts";
import { SpanFold } from "../../src/ui/log/spans.ts";
import { splitDiff } from "../../src/ui/panes/files/sources.ts";
import {
  gauge,
  keepSample,
  parseMetrics,
  rate,
  type Sample,
  toSparkline,
} from "../../src/ui/panes/server/samples.ts";
import { clipSpans } from "../../src/ui/panes/span-store.ts";
import { paint } from "../../src/ui/parts/terminal-text.ts";
import { createScale, toGaps, toLanes, toNumbers } from "../../src/ui/panes/timeline/lanes.ts";
import { toHitRate, toPrice, toUsageTable } from "../../src/ui/panes/usage/table.ts";

const START = Date.parse("2026-01-01T00:00:00Z");

type Told = [second: number, type: string, data: unknown, parent?: string];

/** A log of events at given seconds. */
function fold(told: readonly Told[]): SpanFold {
  const spans = new SpanFold(0);
  told.forEach(([second, type, data, parent], index) =>
    spans.add({
      sequence: index + 1,
      type,
      time: new Date(START + second * 1_000).toISOString(),
      data,
      ...(parent !== undefined && { parent_id: parent }),
    } as unknown as SluiceEvent),
  );
  return spans;
}

const call = (id: string, name: string, args = "{}"): unknown => ({
  item: {
    item_id: id,
    kind: "tool_call",
    status: "completed",
    content: [{ type: "tool_call", name, arguments: args, call_id: id }],
  },
});
const result = (of: string, status = "completed"): unknown => ({
  item: { item_id: `${of}r`, parent_id: of, kind: "tool_result", status, content: [] },
});

/** Two turns with a pause of an hour; the second one waits for somebody. */
const LOG: readonly Told[] = [
  [0, "turn.started", { turn_id: "t1", input_ids: [] }],
  [0, "model.started", { request_id: "m1", model: "big" }],
  [2, "item.started", call("c1", "bash", '{"command":"npm test"}')],
  [4, "model.ended", { request_id: "m1", model: "big", usage: { input_tokens: 10, cost_usd: 0.5 } }],
  [4, "item.started", call("c2", "Task", '{"description":"explore"}')],
  [5, "item.started", call("c3", "read", '{"path":"a"}'), "c2"],
  [6, "item.completed", result("c3"), "c2"],
  [7, "item.completed", result("c2")],
  [8, "item.completed", result("c1", "failed")],
  [10, "turn.ended", { turn_id: "t1", status: "completed", stop_reason: "end_turn" }],
  [3_610, "turn.started", { turn_id: "t2", input_ids: [] }],
  [3_610, "permission.requested", { permission_id: "p1", action: "deploy", status: "requested" }],
  [3_614, "permission.resolved", { permission_id: "p1", action: "deploy", status: "approved" }],
  [3_620, "turn.ended", { turn_id: "t2", status: "completed", stop_reason: "end_turn" }],
];
const spans = fold(LOG).all;
const at = (second: number): number => START + second * 1_000;
const names = (list: readonly Span[]): string[] => list.map(({ kind, sequence }) => `${kind}@${sequence}`);

function textOf(line: ReturnType<typeof paint>[number]): string {
  return line.map(({ text }) => text).join("");
}

function sampleOf(time: number, events: number): Sample {
  return { time, values: parseMetrics(`# HELP e x\nevents ${events}\nhttp{status="5xx"} 2\nbroken\n`) };
}

describe("the timeline", () => {
  it("has lanes for the main agent, the model, tools, people and each sub-agent", () => {
    const lanes = toLanes(spans, at(3_620)).map(({ name, spans: own }) => [name].concat(names(own)));
    expect(lanes).toEqual([
      ["main", "turn@1", "turn@11"],
      ["model", "model@2"],
      ["tools", "tool@3"],
      ["people", "people@12"],
      ["explore", "agent@5"],
      ["explore", "tool@6"],
    ]);
    expect(spans.find(({ sequence }) => sequence === 3)?.failed).toBe(true);
  });

  it("shows a moment as it was: what ended later is open, and its usage is not known yet", () => {
    const then = clipSpans(spans, 3);
    expect(names(then)).toEqual(["turn@1", "model@2", "tool@3"]);
    expect(then.every(({ end, last }) => end === 0 && last === 0)).toBe(true);
    expect(then[1]?.usage).toBeUndefined();
    expect(then[1]?.firstToken).toBe(at(2));
    expect(clipSpans(spans, 2)[1]?.firstToken).toBe(0);
  });

  it("counts each instant once, for people before tools before the model", () => {
    const { people, tools, model, rest, ...numbers } = toNumbers(
      spans,
      { from: at(0), to: at(10) },
      at(3_620),
    );
    expect([people, tools, model, rest]).toEqual([0, 0.6, 0.2, 0.2]);
    expect(numbers).toMatchObject({
      busy: 10_000,
      requests: 1,
      firstToken: 2_000,
      usage: { input_tokens: 10, cost_usd: 0.5 },
    });
    const second = toNumbers(spans, { from: at(3_610), to: at(3_620) }, at(3_620));
    expect([second.people, second.rest, second.firstToken]).toEqual([0.4, 0.6, undefined]);
  });

  it("folds idle gaps to a small width and finds every time again", () => {
    const gaps = toGaps(spans, at(3_620));
    expect(gaps).toEqual([{ from: at(10), to: at(3_610) }]);
    const range = { from: at(0), to: at(3_620) };
    expect(createScale(range, []).toPart(at(10))).toBeLessThan(0.01);
    const folded = createScale(range, gaps);
    expect(folded.toPart(at(10))).toBeGreaterThan(0.4);
    for (const second of [0, 3, 10, 2_000, 3_610, 3_615, 3_620])
      expect(folded.toTime(folded.toPart(at(second)))).toBeCloseTo(at(second), -1);
  });

  it("puts calls that run at once on lines of their own, and bounds the lines", () => {
    const many = Array.from({ length: 40 }, (_, index): Told => [
      index,
      "item.started",
      call(`x${index}`, "bash"),
    ]);
    const lines = toLanes(fold(many).all, at(100)).filter(({ name }) => name === "tools");
    expect(lines).toHaveLength(6);
    expect(lines.reduce((sum, line) => sum + line.spans.length, 0)).toBe(40);
  });
});

describe("the usage", () => {
  it("sums by turn and model, and invents nothing", () => {
    const { rows, total, isPartlyPriced } = toUsageTable(spans, []);
    expect(rows.map(({ turn, model, requests }) => [turn, model, requests])).toEqual([[1, "big", 1]]);
    expect(total).toEqual({ input_tokens: 10, cost_usd: 0.5 });
    expect(isPartlyPriced).toBe(false);
    expect([toPrice({ cost_usd: 0.5 }), toPrice({ input_tokens: 3 }), toPrice({})]).toEqual([
      "$0.50",
      "plan",
      "unknown",
    ]);
    expect([toHitRate({ input_tokens: 25, cache_read_tokens: 75 }), toHitRate({ input_tokens: 25 })]).toEqual(
      ["75 %", "unknown"],
    );
  });

  it("takes a turn's own sum only where no request was counted", () => {
    const turn = { index: 1, first: 1, last: 10, usage: { output_tokens: 99 } };
    const other = { ...turn, index: 2, first: 11, last: 14 };
    const { rows } = toUsageTable(spans, [turn, other] as never);
    expect(rows.map(({ turn: index, usage }) => [index, usage.output_tokens])).toEqual([
      [1, undefined],
      [2, 99],
    ]);
  });
});

describe("the terminal", () => {
  it("draws colours over line ends, and a carriage return over its line", () => {
    const lines = paint("\u001B[31mred\nstill\u001B[0m\n10%\r100%\nabc\rX\n");
    expect(lines.map(textOf)).toEqual(["red", "still", "100%", "Xbc"]);
    expect(lines[1]?.[0]?.classes).toBe("fg-ansi-red");
    expect(lines[2]?.[0]?.classes).toBe("");
  });

  it("draws over coloured text, erases, and goes back up, as a progress display does", () => {
    const over = paint("\u001B[31mred\u001B[0m\rRED\n");
    expect(over.map(textOf)).toEqual(["RED"]);
    expect(over[0]?.[0]?.classes).toBe("");
    expect(paint("\u001B[31mabcdef\rXY").map((line) => line.map(({ text }) => text))).toEqual([["XYcdef"]]);
    expect(paint("working\r\u001B[Kdone").map(textOf)).toEqual(["done"]);
    expect(paint("a 1%\nb 1%\n\u001B[2Aa 9%\u001B[1B\rb 9%\nend").map(textOf)).toEqual([
      "a 9%",
      "b 9%",
      "end",
    ]);
    expect(paint("ab\b\bX").map(textOf)).toEqual(["Xb"]);
    expect(
      paint("\u001B[38;5;196mr\u001B[38;2;0;200;0mg\u001B[91mb")[0]?.map(({ classes }) => classes),
    ).toEqual(["fg-ansi-red", "fg-ansi-green", "fg-ansi-bright-red"]);
  });

  it("loses no text of a line with many colours, and reads a flood of backspaces", () => {
    const many = Array.from({ length: 200 }, (_, n) => `\u001B[3${n % 8}mx`).join("");
    expect(paint(many).map(textOf)).toEqual(["x".repeat(200)]);
    expect(paint(`${"a".repeat(100_000)}${"\b".repeat(100_000)}Z`).map(textOf)[0]?.[0]).toBe("Z");
  });

  it("leaves nothing of other escapes", () => {
    const hostile =
      "\u001B]0;title\u0007a\u001B[2J\u001B[10;10Hb\u001B]8;;http://evil\u001B\\c\u0000\u202Ed\u009B31m";
    expect(
      paint(hostile)
        .flat()
        .map(({ text }) => text)
        .join(""),
    ).toBe("abcd31m");
  });
});

describe("the files", () => {
  it("splits a diff by its files", () => {
    const diff =
      "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/gone b/gone\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n";
    expect(splitDiff(diff).map(({ path }) => path)).toEqual(["x", "gone"]);
  });
});

describe("the server's figures", () => {
  it("are read from Prometheus' text, kept for 15 minutes, and a restart has no rate", () => {
    let kept = [sampleOf(0, 5), sampleOf(5_000, 15), sampleOf(10_000, 3)];
    expect(rate(kept, "events")).toEqual([null, 2, null]);
    expect(gauge(kept, 'http{status="5xx"}')).toEqual([2, 2, 2]);
    kept = keepSample(kept, sampleOf(15 * 60_000 + 6_000, 9));
    expect(kept.map(({ time }) => time)).toEqual([10_000, 906_000]);
    expect(toSparkline([0, 1, 2], [1, null, 2], 100, 20)).toMatch(/^M[\d. ]+M[\d. ]+$/);
  });
});
