import { expect, it } from "vitest";
import type { EventDraft } from "../../../src/contract/index.ts";
import { addModelMetrics } from "../../../src/http/universal/metrics.ts";
import { ModelCounters } from "../../../src/sessions/model-counters.ts";

const ended = (model: string, more: object = {}): EventDraft => ({
  type: "model.ended",
  source: "daemon",
  data: { request_id: "r", provider: "p", model, duration_ms: 500, ttft_ms: 250, ...more },
});

function read(counters: ModelCounters): Record<string, Readonly<Record<string, number>>> {
  const metrics: Record<string, Readonly<Record<string, number>>> = {};
  addModelMetrics((name, _help, values) => (metrics[name] = values), counters.all);
  return metrics;
}

it("model requests are counted by model and result, with tokens, costs and times", () => {
  const counters = new ModelCounters();
  const usage = { input_tokens: 5, output_tokens: 2, cache_read_tokens: 9, cost_usd: 0.5 };
  counters.add([
    ended("m", { usage }),
    ended("m", { usage: { ...usage, cost_usd: 0 }, served_by: "cassette" }),
  ]);
  counters.add([ended("m", { error: { message: "x" } }), ended('a"b\\c\n')]);
  const labels = 'provider="p",model="m"';
  expect(read(counters)).toMatchObject({
    model_requests_total: {
      [`{${labels},result="ok"}`]: 1,
      [`{${labels},result="cassette"}`]: 1,
      [`{${labels},result="error"}`]: 1,
      [String.raw`{provider="p",model="a\"b\\c\n",result="ok"}`]: 1,
    },
    model_tokens_total: { [`{${labels},kind="cache_read"}`]: 18, [`{${labels},kind="output"}`]: 4 },
    model_cost_usd_total: { [`{${labels}}`]: 0.5 },
    model_request_seconds_total: { [`{${labels}}`]: 1.5 },
    model_first_bytes_total: { [`{${labels}}`]: 3 },
  });
});

it("an agent that invents models does not make the metrics grow", () => {
  const counters = new ModelCounters();
  for (let at = 0; at < 1_000; at++) counters.add([ended(`m${at}`)]);
  const requests = read(counters)["model_requests_total"] ?? {};
  expect(Object.keys(requests)).toHaveLength(101);
  expect(requests['{provider="other",model="other",result="ok"}']).toBe(900);
});
