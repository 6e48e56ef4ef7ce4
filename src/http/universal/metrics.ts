import { readdirSync, readFileSync } from "node:fs";
import type { EngineStats } from "../../sessions/index.ts";
import type { Services } from "../services.ts";

/** One value, or several by their labels. */
type Values = number | Readonly<Record<string, number>>;

/** The metrics in Prometheus' text format. */
export function readMetrics({ engine, meter, streams, webhooks: courier, otlp }: Services): string {
  const stats = engine.stats();
  const memory = process.memoryUsage();
  const lines: string[] = [];
  const add = (type: string, name: string, help: string, values: Values): void => {
    lines.push(`# HELP sluice_${name} ${help}`, `# TYPE sluice_${name} ${type}`);
    const labelled = typeof values === "number" ? { "": values } : values;
    for (const [labels, value] of Object.entries(labelled)) lines.push(`sluice_${name}${labels} ${value}`);
  };
  const gauge = (name: string, help: string, values: Values): void => add("gauge", name, help, values);
  const counter = (name: string, help: string, values: Values): void => add("counter", name, help, values);

  gauge("sessions_live", "Sessions that are open in memory.", stats.sessionsLive);
  gauge("turns_running", "Turns that run now.", stats.turnsRunning);
  counter("turns_ended_total", "Turns that have ended.", stats.turnsEnded);
  gauge("processes_running", "Agent processes that run now.", stats.processesRunning);
  gauge("starts_waiting", "Agents that wait for their start.", stats.starts.waiting);
  gauge("starts_running", "Agents that are being started.", stats.starts.starting);
  counter("starts_admitted_total", "Starts that were admitted.", stats.starts.admitted);
  counter("starts_withdrawn_total", "Starts that were abandoned in the queue.", stats.starts.withdrawn);
  gauge("agents_resting", "Idle agent processes.", stats.resting.agents);
  gauge("agents_resting_bound", "Limit of idle agent processes.", stats.resting.bound);
  counter(
    "agents_put_to_sleep_total",
    "Idle agent processes that the limit ended.",
    stats.resting.putToSleep,
  );
  counter("events_appended_total", "Events committed to the log.", stats.eventsAppended);
  counter("batches_appended_total", "Transactions that committed them.", stats.batchesAppended);
  counter("append_failures_total", "Transactions that failed.", stats.appendFailures);
  gauge("stream_readers", "Open event streams.", meter.readers);
  gauge("stream_feeds", "Projections that open streams share.", streams.feeds);
  counter("stream_frames_total", "Frames written to event streams.", meter.frames);
  counter("stream_bytes_total", "Bytes written to event streams.", meter.bytes);
  counter(
    "http_requests_total",
    "Requests, by the class of their status.",
    toLabelled("status", meter.requests),
  );
  counter(
    "callbacks_accepted_total",
    "Reports of remote runners that reached the log.",
    meter.callbacksAccepted,
  );
  counter(
    "callbacks_refused_total",
    "Reports of remote runners that were refused, by reason.",
    toLabelled("reason", meter.callbacksRefused),
  );
  addModelMetrics((name, help, values) => counter(name, help, values), stats.models);
  const exporter = otlp?.stats;
  if (exporter) {
    counter("otlp_spans_exported_total", "Spans that the collector has accepted.", exporter.exported);
    counter("otlp_spans_dropped_total", "Spans that the collector refused for good.", exporter.dropped);
    counter("otlp_failures_total", "Failed requests to the collector.", exporter.failures);
  }
  const webhooks = courier?.stats;
  if (webhooks) {
    counter("webhooks_delivered_total", "Webhooks that an endpoint has accepted.", webhooks.delivered);
    counter("webhooks_failed_total", "Failed deliveries of webhooks.", webhooks.failed);
    gauge(
      "webhook_endpoints_given_up",
      "Endpoints that are given up until the next start.",
      webhooks.givenUp,
    );
  }
  gauge("resident_memory_bytes", "Memory of the process.", memory.rss);
  gauge("heap_used_bytes", "JavaScript heap in use.", memory.heapUsed);
  gauge("external_memory_bytes", "Buffers outside of the heap.", memory.external);
  const descriptors = countDescriptors();
  if (descriptors) gauge("descriptors_open", "Files and sockets that are open.", descriptors.open);
  if (descriptors?.limit !== undefined)
    gauge("descriptors_limit", "Limit of open files and sockets.", descriptors.limit);
  gauge("uptime_seconds", "Uptime of the process.", Math.floor(process.uptime()));
  return `${lines.join("\n")}\n`;
}

function toLabelled(label: string, counts: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(counts).map(([kind, count]) => [`{${label}="${kind}"}`, count]));
}

interface Descriptors {
  /** Files, sockets and pipes that this process has open. */
  readonly open: number;
  /** Undefined on a system that does not report it. */
  readonly limit: number | undefined;
}

/** Undefined on a system that does not report it. */
function countDescriptors(): Descriptors | undefined {
  try {
    // Less one: reading the folder opens a descriptor itself.
    return { open: readdirSync("/dev/fd").length - 1, limit: readLimit() };
  } catch {
    return undefined;
  }
}

function readLimit(): number | undefined {
  try {
    const soft = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
    return soft === undefined ? undefined : Number(soft);
  } catch {
    return undefined;
  }
}

/** Adds one metric with its labelled values. */
export type AddCounter = (name: string, help: string, values: Readonly<Record<string, number>>) => void;

/** The `sluice_model_*` metrics. Labels hold names of models and providers, and nothing of a session. */
export function addModelMetrics(add: AddCounter, models: EngineStats["models"]): void {
  const requests: Record<string, number> = {};
  const tokens: Record<string, number> = {};
  const cost: Record<string, number> = {};
  const seconds: Record<string, number> = {};
  const firstSum: Record<string, number> = {};
  const firstCount: Record<string, number> = {};
  for (const { provider, model, ...counts } of models) {
    const labels = `provider="${escape(provider)}",model="${escape(model)}"`;
    for (const [result, count] of Object.entries(counts.requests))
      requests[`{${labels},result="${result}"}`] = count;
    for (const [kind, count] of Object.entries(counts.tokens)) tokens[`{${labels},kind="${kind}"}`] = count;
    const plain = `{${labels}}`;
    cost[plain] = counts.costUsd;
    seconds[plain] = counts.seconds;
    firstSum[plain] = counts.firstSeconds;
    firstCount[plain] = counts.firsts;
  }
  add("model_requests_total", "Model requests that have ended, by result: ok, error or cassette.", requests);
  add("model_tokens_total", "Tokens of model requests, by kind. Input is without cached tokens.", tokens);
  add("model_cost_usd_total", "Cost of model requests in dollars, where a price is known.", cost);
  add("model_request_seconds_total", "Duration of model requests.", seconds);
  add("model_first_byte_seconds_total", "Time to the first byte of model requests.", firstSum);
  add("model_first_bytes_total", "Model requests with a first byte.", firstCount);
}

/** A label of Prometheus' text format. */
function escape(text: string): string {
  return text
    .replaceAll("\\", String.raw`\\`)
    .replaceAll('"', String.raw`\"`)
    .replaceAll("\n", String.raw`\n`);
}
