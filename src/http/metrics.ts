import { countDescriptors } from "./descriptors.ts";
import type { Services } from "./services.ts";

/** Prometheus' text format. */
export function toMetrics({ engine, meter, streams, webhooks }: Services): string {
  const stats = engine.stats();
  const memory = process.memoryUsage();
  const lines: string[] = [];
  const say = (
    name: string,
    type: "counter" | "gauge",
    help: string,
    values: Record<string, number>,
  ): void => {
    lines.push(`# HELP sluice_${name} ${help}`, `# TYPE sluice_${name} ${type}`);
    for (const [labels, value] of Object.entries(values)) lines.push(`sluice_${name}${labels} ${value}`);
  };

  say("sessions_live", "gauge", "Sessions that are open in memory.", { "": stats.sessionsLive });
  say("turns_running", "gauge", "Turns that run now.", { "": stats.turnsRunning });
  say("turns_ended_total", "counter", "Turns that have ended.", { "": stats.turnsEnded });
  say("processes_running", "gauge", "Agent processes that run now.", { "": stats.processesRunning });
  say("starts_waiting", "gauge", "Agents that wait for their start.", { "": stats.starts.waiting });
  say("starts_running", "gauge", "Agents that are being started.", { "": stats.starts.starting });
  say("starts_admitted_total", "counter", "Starts that were let in.", { "": stats.starts.admitted });
  say("starts_withdrawn_total", "counter", "Starts that were given up while they waited.", {
    "": stats.starts.withdrawn,
  });
  say("agents_resting", "gauge", "Agents that live without work.", { "": stats.resting.agents });
  say("agents_resting_bound", "gauge", "How many of them may.", { "": stats.resting.bound });
  say("agents_put_to_sleep_total", "counter", "Agents that were ended because more rested than may.", {
    "": stats.resting.putToSleep,
  });
  say("events_appended_total", "counter", "Events committed to the log.", { "": stats.eventsAppended });
  say("batches_appended_total", "counter", "Transactions that committed them.", {
    "": stats.batchesAppended,
  });
  say("append_failures_total", "counter", "Transactions that failed.", { "": stats.appendFailures });
  say("stream_readers", "gauge", "Open event streams.", { "": meter.readers });
  say("stream_feeds", "gauge", "Projections that open streams share.", { "": streams.feeds });
  say("stream_frames_total", "counter", "Frames written to event streams.", { "": meter.frames });
  say("stream_bytes_total", "counter", "Bytes written to event streams.", { "": meter.bytes });
  say(
    "http_requests_total",
    "counter",
    "Requests, by the class of their status.",
    toLabelled("status", meter.requests),
  );
  say("callbacks_accepted_total", "counter", "Reports of remote runners that reached the log.", {
    "": meter.callbacksAccepted,
  });
  say(
    "callbacks_refused_total",
    "counter",
    "Reports of remote runners that did not, by what was wrong with them.",
    toLabelled("reason", meter.callbacksRefused),
  );
  if (webhooks) {
    say("webhooks_delivered_total", "counter", "Webhooks that an endpoint has taken.", {
      "": webhooks.delivered,
    });
    say("webhooks_failed_total", "counter", "Webhooks that it has not, each time.", { "": webhooks.failed });
    say("webhook_endpoints_given_up", "gauge", "Endpoints that nothing is sent to until the next start.", {
      "": webhooks.givenUp,
    });
  }
  say("resident_memory_bytes", "gauge", "Memory of the process.", { "": memory.rss });
  say("heap_used_bytes", "gauge", "JavaScript heap in use.", { "": memory.heapUsed });
  say("external_memory_bytes", "gauge", "Buffers outside of the heap.", { "": memory.external });
  const descriptors = countDescriptors();
  if (descriptors)
    say("descriptors_open", "gauge", "Files and sockets that are open.", { "": descriptors.open });
  if (descriptors?.limit !== undefined)
    say("descriptors_limit", "gauge", "How many may be open.", { "": descriptors.limit });
  say("uptime_seconds", "gauge", "How long the process has run.", { "": Math.floor(process.uptime()) });
  return `${lines.join("\n")}\n`;
}

function toLabelled(label: string, counts: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(counts).map(([kind, count]) => [`{${label}="${kind}"}`, count]));
}
