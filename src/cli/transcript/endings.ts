import type { EventOf, StderrOutput, Usage } from "../../contract/index.ts";
import { toOneLine, toPrintable } from "./clean.ts";
import type { Pen } from "./pen.ts";

/** How turns and sessions go wrong, go on and end. */

export function writeTurnEnd(pen: Pen, event: EventOf<"turn.ended">, startedAt: string | undefined): void {
  const { data, session_id: session } = event;
  const facts = [
    startedAt && `in ${toDuration(Date.parse(event.time) - Date.parse(startedAt))}`,
    ...toUsage(data.usage),
  ];
  const behind = facts.filter(Boolean).join(" · ");
  pen.space();
  pen.line(`${toVerdict(pen, data)} ${pen.paint.dim(behind)}`.trimEnd());
  const help = data.status === "failed" ? helpFor(data) : undefined;
  if (help) pen.line(`  ${help}`);
  pen.line(pen.paint.dim(`  session ${session} · replay it: ${pen.replayOf(session)}`));
}

export function writeUnread(pen: Pen, count: number, session: string): void {
  const lines = count === 1 ? "1 more line" : `${toCount(count)} more lines`;
  const how = `${pen.replayOf(session)} --as universal shows all`;
  pen.line(pen.paint.dim(`· ${lines} that could not be read, ${how}`));
}

export function writeRetry(pen: Pen, data: EventOf<"turn.retrying">["data"]): void {
  const tries = data.max_attempts ? `${data.attempt} of ${data.max_attempts}` : String(data.attempt);
  const why = toOneLine(data.error.message || data.error.code, 200);
  pen.line(pen.paint.yellow(`↻ ${why}: try ${tries} in ${toDuration(data.delay_ms)}`));
}

export function writeError(pen: Pen, data: EventOf<"error">["data"]): void {
  const code = data.code ? ` (${toOneLine(data.code, 60)})` : "";
  pen.line(pen.paint.red(`✗ ${toOneLine(data.message, 600)}${code}`));
}

export function writeSessionEnd(pen: Pen, data: EventOf<"session.ended">["data"]): void {
  if (data.reason === "completed") return pen.line(pen.paint.dim("session ended"));
  if (data.reason === "terminated") return pen.line(pen.paint.yellow("■ session terminated"));
  const exit = data.exit_code === undefined ? "" : ` (exit code ${data.exit_code})`;
  pen.line(pen.paint.red(`✗ session ended: ${toOneLine(data.message ?? "the agent failed", 600)}${exit}`));
  for (const line of lastLines(data.stderr)) pen.line(pen.paint.dim(`  ${line}`));
}

const HELP: Partial<Record<EventOf<"turn.ended">["data"]["stop_reason"], string>> = {
  retries_exhausted:
    "The model stayed unavailable. Try again later, or give the session a larger retry budget.",
  timeout: "The turn took longer than its limit (1 hour unless the session says otherwise).",
  agent_exited: "The agent's process ended by itself. `sluice doctor` checks the agents.",
  agent_lost:
    "The agent's process was gone when sluice came back to it. Send the message again to start anew.",
};

/** An agent that could not be started was never there to be lost; its error says what to do. */
function helpFor({ stop_reason: reason, error }: EventOf<"turn.ended">["data"]): string | undefined {
  const wasThere = error === undefined || error.code === "agent_process_exited";
  return reason !== "agent_lost" || wasThere ? HELP[reason] : undefined;
}

function toVerdict(pen: Pen, data: EventOf<"turn.ended">["data"]): string {
  if (data.status === "interrupted") return pen.paint.yellow("■ interrupted");
  if (data.status === "failed") {
    const why = data.error?.message || data.stop_reason.replaceAll("_", " ");
    return pen.paint.red(`✗ failed: ${toOneLine(why, 400)}`);
  }
  if (data.stop_reason === "end_turn") return pen.paint.green("✓ done");
  return pen.paint.yellow(`■ stopped: ${data.stop_reason.replaceAll("_", " ")}`);
}

function toUsage(usage: Usage | undefined): string[] {
  if (!usage) return [];
  const { input_tokens: input, output_tokens: output, cost_usd: cost } = usage;
  const tokens =
    input === undefined && output === undefined
      ? []
      : [`${toCount(input)} tokens in, ${toCount(output)} out`];
  return cost === undefined ? tokens : [...tokens, `$${cost.toFixed(4)}`];
}

function toCount(count = 0): string {
  return count.toLocaleString("en");
}

export function toDuration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
}

function lastLines(stderr: StderrOutput | undefined): string[] {
  const text = toPrintable(stderr?.tail ?? stderr?.head ?? "").trimEnd();
  return text === "" ? [] : text.split("\n").slice(-10);
}
