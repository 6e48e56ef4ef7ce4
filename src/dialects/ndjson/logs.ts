import type { EventOf, PlanEntry, SluiceEvent } from "../../contract/index.ts";
import type { LogLine } from "./line.ts";

type Said = Pick<LogLine, "level" | "message">;

/** What an event is to somebody who reads a run's trace; undefined for what other lines tell, or nobody needs. */
export function toLog(event: SluiceEvent): Said | undefined {
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

function sandboxLog(type: string, { provider, sandbox_id, message }: EventOf<"sandbox.ready">["data"]): Said {
  const said = `sandbox ${type.slice("sandbox.".length)}: ${provider} ${sandbox_id}`;
  const level = type === "sandbox.error" ? "error" : "info";
  return { level, message: message === undefined ? said : `${said}: ${message}` };
}

function processLog({ exit_code, signal, reason, stderr }: EventOf<"process.ended">["data"]): Said {
  const how = signal ?? (exit_code === undefined ? reason : `exit code ${exit_code}`);
  const last = stderr?.tail ?? stderr?.head;
  const level = reason === "lost" || (reason === "exited" && exit_code !== 0) ? "warn" : "info";
  return { level, message: `the agent's process ended: ${how}${last ? `\n${last}` : ""}` };
}

// What is tried again is told as that.
function errorLog({ code, message, details }: EventOf<"error">["data"]): Said | undefined {
  if ((details as { retrying?: unknown } | undefined)?.retrying !== undefined) return undefined;
  return { level: "error", message: code === undefined ? message : `${code}: ${message}` };
}

function toEntry({ content, status }: PlanEntry): string {
  return `[${status === "completed" ? "x" : status === "in_progress" ? ">" : " "}] ${content}`;
}

const info = (message: string): Said => ({ level: "info", message });
const warn = (message: string): Said => ({ level: "warn", message });
