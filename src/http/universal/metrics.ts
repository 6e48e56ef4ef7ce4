import { readdirSync, readFileSync } from "node:fs";
import type { Services } from "../services.ts";

/** The metrics in Prometheus' text format. */
export function readMetrics({ engine, meter, streams, webhooks }: Services): string {
  const stats = engine.stats();
  const memory = process.memoryUsage();
  const lines: string[] = [];
  const add = (
    name: string,
    type: "counter" | "gauge",
    help: string,
    values: Record<string, number>,
  ): void => {
    lines.push(`# HELP sluice_${name} ${help}`, `# TYPE sluice_${name} ${type}`);
    for (const [labels, value] of Object.entries(values)) lines.push(`sluice_${name}${labels} ${value}`);
  };

  add("sessions_live", "gauge", "Sessions that are open in memory.", { "": stats.sessionsLive });
  add("turns_running", "gauge", "Turns that run now.", { "": stats.turnsRunning });
  add("turns_ended_total", "counter", "Turns that have ended.", { "": stats.turnsEnded });
  add("processes_running", "gauge", "Agent processes that run now.", { "": stats.processesRunning });
  add("starts_waiting", "gauge", "Agents that wait for their start.", { "": stats.starts.waiting });
  add("starts_running", "gauge", "Agents that are being started.", { "": stats.starts.starting });
  add("starts_admitted_total", "counter", "Starts that were admitted.", { "": stats.starts.admitted });
  add("starts_withdrawn_total", "counter", "Starts that were abandoned in the queue.", {
    "": stats.starts.withdrawn,
  });
  add("agents_resting", "gauge", "Idle agent processes.", { "": stats.resting.agents });
  add("agents_resting_bound", "gauge", "Limit of idle agent processes.", { "": stats.resting.bound });
  add("agents_put_to_sleep_total", "counter", "Idle agent processes that the limit ended.", {
    "": stats.resting.putToSleep,
  });
  add("events_appended_total", "counter", "Events committed to the log.", { "": stats.eventsAppended });
  add("batches_appended_total", "counter", "Transactions that committed them.", {
    "": stats.batchesAppended,
  });
  add("append_failures_total", "counter", "Transactions that failed.", { "": stats.appendFailures });
  add("stream_readers", "gauge", "Open event streams.", { "": meter.readers });
  add("stream_feeds", "gauge", "Projections that open streams share.", { "": streams.feeds });
  add("stream_frames_total", "counter", "Frames written to event streams.", { "": meter.frames });
  add("stream_bytes_total", "counter", "Bytes written to event streams.", { "": meter.bytes });
  add(
    "http_requests_total",
    "counter",
    "Requests, by the class of their status.",
    toLabelled("status", meter.requests),
  );
  add("callbacks_accepted_total", "counter", "Reports of remote runners that reached the log.", {
    "": meter.callbacksAccepted,
  });
  add(
    "callbacks_refused_total",
    "counter",
    "Reports of remote runners that were refused, by reason.",
    toLabelled("reason", meter.callbacksRefused),
  );
  if (webhooks) {
    add("webhooks_delivered_total", "counter", "Webhooks that an endpoint has accepted.", {
      "": webhooks.delivered,
    });
    add("webhooks_failed_total", "counter", "Failed deliveries of webhooks.", { "": webhooks.failed });
    add("webhook_endpoints_given_up", "gauge", "Endpoints that are given up until the next start.", {
      "": webhooks.givenUp,
    });
  }
  add("resident_memory_bytes", "gauge", "Memory of the process.", { "": memory.rss });
  add("heap_used_bytes", "gauge", "JavaScript heap in use.", { "": memory.heapUsed });
  add("external_memory_bytes", "gauge", "Buffers outside of the heap.", { "": memory.external });
  const descriptors = countDescriptors();
  if (descriptors)
    add("descriptors_open", "gauge", "Files and sockets that are open.", { "": descriptors.open });
  if (descriptors?.limit !== undefined)
    add("descriptors_limit", "gauge", "Limit of open files and sockets.", { "": descriptors.limit });
  add("uptime_seconds", "gauge", "Uptime of the process.", { "": Math.floor(process.uptime()) });
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
