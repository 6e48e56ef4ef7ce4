import type { EventOf, PlanEntry, SluiceEvent } from "../../contract/index.ts";
import type { LogLine } from "./line.ts";

type Log = Pick<LogLine, "level" | "message">;

/** An event as a log line; undefined for events that other lines show and for unimportant ones. */
export function toLog(event: SluiceEvent): Log | undefined {
  switch (event.type) {
    case "sandbox.boot":
    case "sandbox.ready":
    case "sandbox.connected":
    case "sandbox.paused":
    case "sandbox.resumed":
    case "sandbox.killed":
    case "sandbox.error":
      return sandboxLog(event.type, event.data);
    case "process.started": {
      const { harness, resumed } = event.data;
      return info(resumed === undefined ? `${harness} started` : `${harness} started, resuming ${resumed}`);
    }
    case "process.ended":
      return processLog(event.data);
    case "turn.waiting":
      return warn(`waiting for an answer to ${event.data.actions.map(({ kind }) => kind).join(", ")}`);
    case "turn.resumed":
      return info(event.data.reason === "retry" ? "trying again" : "answered, going on");
    case "turn.retrying": {
      const { attempt, delay_ms, error } = event.data;
      return warn(`try ${attempt} failed (${error.code}: ${error.message}); the next one in ${delay_ms} ms`);
    }
    case "interrupt.requested":
      return info(event.data.by === undefined ? "asked to stop" : `asked to stop by ${event.data.by}`);
    case "plan.updated":
      return info(`plan: ${event.data.entries.map(toEntry).join("; ")}`);
    case "context.compacted":
      return info(`the context was compacted${event.data.summary ? `: ${event.data.summary}` : ""}`);
    case "agent.unparsed":
      return warn(`the agent said what nobody understands (${event.data.location}): ${event.data.error}`);
    case "error":
      return errorLog(event.data);
    default:
      return undefined;
  }
}

function sandboxLog(type: string, { provider, sandbox_id, message }: EventOf<"sandbox.ready">["data"]): Log {
  const text = `sandbox ${type.slice("sandbox.".length)}: ${provider} ${sandbox_id}`;
  const level = type === "sandbox.error" ? "error" : "info";
  return { level, message: message === undefined ? text : `${text}: ${message}` };
}

function processLog({ exit_code, signal, reason, stderr }: EventOf<"process.ended">["data"]): Log {
  const how = signal ?? (exit_code === undefined ? reason : `exit code ${exit_code}`);
  const last = stderr?.tail ?? stderr?.head;
  const level = reason === "lost" || (reason === "exited" && exit_code !== 0) ? "warn" : "info";
  return { level, message: `the agent's process ended: ${how}${last ? `\n${last}` : ""}` };
}

/** Undefined for the error of a retry: `turn.retrying` has a log line of its own. */
function errorLog({ code, message, details }: EventOf<"error">["data"]): Log | undefined {
  if ((details as { retrying?: unknown } | undefined)?.retrying !== undefined) return undefined;
  return { level: "error", message: code === undefined ? message : `${code}: ${message}` };
}

function toEntry({ content, status }: PlanEntry): string {
  return `[${status === "completed" ? "x" : status === "in_progress" ? ">" : " "}] ${content}`;
}

const info = (message: string): Log => ({ level: "info", message });
const warn = (message: string): Log => ({ level: "warn", message });
