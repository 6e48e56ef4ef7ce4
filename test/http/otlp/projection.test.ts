import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { EVENT_DATA } from "../../../src/contract/event-data.ts";
import type { EventData, EventType, SluiceEvent } from "../../../src/contract/index.ts";
import { encodeSpans } from "../../../src/http/otlp/encode.ts";
import { NAMES } from "../../../src/http/otlp/names.ts";
import { type Span, SpanProjection } from "../../../src/http/otlp/projection.ts";
import { readOtlpSettings } from "../../../src/http/otlp/settings.ts";
import { ExportRequest } from "./receiver.ts";

const SECRET = "the secret words";
const about = {
  session: "s1",
  createdAt: 5,
  agent: "claude",
  digest: (...parts: readonly unknown[]) => createHash("sha256").update(JSON.stringify(parts)).digest("hex"),
};
let sequence = 0;
function event<T extends EventType>(type: T, data: EventData<T>, turn_id = "t1"): SluiceEvent {
  EVENT_DATA[type].parse(data);
  sequence += 1;
  const time = new Date(Date.parse("2026-11-18T00:00:00Z") + sequence * 1_000).toISOString();
  const envelope = {
    event_id: `e${sequence}`,
    sequence,
    time,
    session_id: "s1",
    source: "daemon",
    synthetic: true,
    turn_id,
  };
  return { ...envelope, type, data } as unknown as SluiceEvent;
}
const call = (id: string, name: string, parent?: string) =>
  event("item.started", {
    item: {
      item_id: id,
      ...(parent === undefined ? {} : { parent_id: parent }),
      kind: "tool_call",
      role: "assistant",
      status: "in_progress",
      content: [{ type: "tool_call", name, arguments: SECRET, call_id: `call_${id}` }],
    },
  });
const result = (id: string, status: "completed" | "failed" = "completed") =>
  event("item.completed", {
    item: {
      item_id: `${id}-result`,
      parent_id: id,
      kind: "tool_result",
      role: "tool",
      status,
      content: [{ type: "tool_result", call_id: `call_${id}`, output: SECRET }],
    },
  });
const started = (id: string, more: object = {}) =>
  event("model.started", {
    request_id: id,
    model: "m",
    provider: "google",
    wire: "gemini",
    attempt: 1,
    ...more,
  });
const ended = (id: string, more: object = {}) =>
  event("model.ended", { request_id: id, model: "m-1", duration_ms: 10, ...more });

const LOG: SluiceEvent[] = [
  event("turn.started", { turn_id: "t1", input_ids: ["i"] }),
  started("r1"),
  ended("r1", { error: { code: "rate_limit_error", message: SECRET }, status: 429 }),
  started("r2", { retry_of: "r1", attempt: 2 }),
  started("title", { kind: "title" }),
  ended("r2", {
    usage: {
      input_tokens: 10,
      cache_read_tokens: 100,
      cache_write_tokens: 7,
      output_tokens: 3,
      cost_usd: 0.25,
    },
    ttft_ms: 1_500,
    stop_reason: "tool_use",
    served_by: "provider",
  }),
  call("bash", "Bash"),
  result("bash", "failed"),
  call("task", "Task"),
  call("inner", "Read", "task"),
  result("inner"),
  result("task"),
  call("open", "Bash"),
  event("turn.ended", { turn_id: "t1", status: "interrupted", stop_reason: "interrupted" }),
  ended("title"),
];

function project(log: readonly SluiceEvent[]): Span[] {
  const projection = new SpanProjection(about);
  return log.flatMap((one) => projection.take(one));
}

function inNextTurn(one: SluiceEvent): SluiceEvent {
  const data = { ...one.data, turn_id: "t2" };
  return { ...one, turn_id: "t2", data } as SluiceEvent;
}

describe("spans", () => {
  const spans = project(LOG);
  const named = (name: string, at = 0): Span => spans.filter((span) => span.name === name)[at] as Span;

  it("of one turn form one tree", () => {
    expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(1);
    const roots = spans.filter(({ parentSpanId }) => parentSpanId === undefined);
    expect(roots).toEqual([named("invoke_agent claude")]);
    const ids = new Set(spans.map(({ spanId }) => spanId));
    expect(ids.size).toBe(spans.length);
    for (const { parentSpanId } of spans) if (parentSpanId !== undefined) expect(ids).toContain(parentSpanId);
    const [root] = roots;
    expect(named("chat m").parentSpanId).toBe(root?.spanId);
    expect(named("execute_tool Task").parentSpanId).toBe(root?.spanId);
    expect(named("invoke_agent").parentSpanId).toBe(named("execute_tool Task").spanId);
    expect(named("execute_tool Read").parentSpanId).toBe(named("invoke_agent").spanId);
    expect(spans).toHaveLength(9);
  });

  it("count cached tokens as input, link a retry with its attempt, and say why one failed", () => {
    const [failed, again] = [named("chat m"), named("chat m", 1)];
    expect(again.attributes).toMatchObject({
      [NAMES.inputTokens]: 117,
      [NAMES.cacheReadTokens]: 100,
      [NAMES.cacheWriteTokens]: 7,
      [NAMES.outputTokens]: 3,
      [NAMES.cost]: 0.25,
      [NAMES.firstChunk]: 1.5,
      [NAMES.provider]: "gcp.gemini",
      [NAMES.requestModel]: "m",
      [NAMES.responseModel]: "m-1",
      [NAMES.finishReasons]: ["tool_use"],
    });
    expect(again.links).toEqual([{ traceId: failed.traceId, spanId: failed.spanId }]);
    expect(failed).toMatchObject({ error: "rate_limit_error", attributes: { [NAMES.httpStatus]: 429 } });
    expect(named("execute_tool Bash")).toMatchObject({ error: "tool_failed" });
    expect(named("execute_tool Bash", 1)).toMatchObject({ error: "interrupted" });
  });

  it("are the same from every place at which nothing is open", () => {
    const projection = new SpanProjection(about);
    let settled = 0;
    const twice = [...LOG, ...LOG.map(inNextTurn)];
    const whole = project(twice);
    for (const [at, one] of twice.entries()) {
      projection.take(one);
      if (!projection.isSettled) continue;
      settled += 1;
      const rest = project(twice.slice(at + 1));
      expect(rest).toEqual(whole.slice(whole.length - rest.length));
    }
    expect(settled).toBe(2);
  });

  it("have the published form, and no text of the session", () => {
    const body = encodeSpans(spans, { version: "1", attributes: { "service.name": "x" } });
    ExportRequest.parse(JSON.parse(body));
    expect(body).not.toContain(SECRET);
  });
});

describe("the settings of OTLP", () => {
  it.each([
    ["http://h:4318", {}, "http://h:4318/v1/traces"],
    ["http://h:4318/v1/traces", {}, "http://h:4318/v1/traces"],
    ["https://h/otel/", {}, "https://h/otel/v1/traces"],
    [undefined, { OTEL_EXPORTER_OTLP_ENDPOINT: "http://e" }, "http://e/v1/traces"],
    [
      undefined,
      { OTEL_EXPORTER_OTLP_ENDPOINT: "http://e", OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://t/x" },
      "http://t/x",
    ],
    [
      "http://o",
      { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://t/x", OTEL_SDK_DISABLED: "true" },
      "http://o/v1/traces",
    ],
    [undefined, { OTEL_EXPORTER_OTLP_ENDPOINT: "http://e", OTEL_SDK_DISABLED: "true" }, undefined],
    [undefined, { OTEL_EXPORTER_OTLP_ENDPOINT: "http://e", OTEL_TRACES_EXPORTER: "none" }, undefined],
    [undefined, { OTEL_EXPORTER_OTLP_ENDPOINT: "http://e", OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" }, undefined],
    [undefined, { OTEL_EXPORTER_OTLP_ENDPOINT: "" }, undefined],
  ])("for %s and %j", (given, env, url) => expect(readOtlpSettings(given, env)?.url).toBe(url));

  it("read headers and attributes, and refuse what is neither", () => {
    const env = {
      OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20abc, x-a=1",
      OTEL_SERVICE_NAME: "mine",
      OTEL_RESOURCE_ATTRIBUTES: "a.b=c,service.name=other",
    };
    expect(readOtlpSettings("http://h", env)).toMatchObject({
      headers: { authorization: "Bearer abc", "x-a": "1" },
      attributes: { "a.b": "c", "service.name": "mine" },
    });
    const wrong = [
      ["ftp://h", {}],
      ["nonsense", {}],
      ["http://user:secret-pass@h", {}],
      ["http://h", { OTEL_EXPORTER_OTLP_HEADERS: "secret-value" }],
      ["http://h", { OTEL_EXPORTER_OTLP_HEADERS: "a=secret-value%0d%0ax:y" }],
      ["http://h", { OTEL_RESOURCE_ATTRIBUTES: "=secret-value" }],
    ] as const;
    for (const [given, env2] of wrong) {
      expect(() => readOtlpSettings(given, env2)).toThrow(/expected/);
      expect(() => readOtlpSettings(given, env2)).not.toThrow(/secret/);
    }
  });
});
