import type { EventOf, PlanEntry, SluiceEvent, StderrOutput, Usage } from "../../contract/index.ts";
import { endItem, growItem, startItem } from "./items.ts";
import { Pen, toOneLine, toPrintable } from "./pen.ts";
import { initialTranscript, type TranscriptState } from "./state.ts";
import { toSubject } from "./tools.ts";

/** The limit of notes about unreadable lines in a turn. */
const UNREAD_SHOWN = 5;

/** One event as text for people. Pure: the same events give the same text, live or replayed. */
export function renderEvent(
  state: TranscriptState,
  event: SluiceEvent,
): { state: TranscriptState; text: string } {
  const pen = new Pen(state.page, state.cursor);
  const next = write(state, event, pen);
  return { state: { ...next, cursor: pen.cursor }, text: pen.text };
}

function write(state: TranscriptState, event: SluiceEvent, pen: Pen): TranscriptState {
  if (event.type === "item.started") return startItem(state, event);
  if (event.type === "item.delta") return growItem(state, event, pen);
  if (event.type === "item.completed") return endItem(state, event, pen);
  if (event.type === "turn.started") return { ...state, turnStarted: event.time };
  const unread = state.unread + (event.type === "agent.unparsed" ? 1 : 0);
  if (event.type === "agent.unparsed" && unread > UNREAD_SHOWN) return { ...state, unread };
  if (event.type === "turn.ended") return endTurn(state, event, pen);
  if (!writeBlock(state, event, pen)) return state;
  const plan = event.type === "plan.updated" ? event.data.entries : state.plan;
  // A request belongs to its call's block, so the result needs no second header.
  const last = /^(permission|tool)\./.test(event.type) ? state.last : event.type;
  return { ...state, last, plan, unread, shadowed: shadowsOf(state, event) };
}

function endTurn(state: TranscriptState, event: EventOf<"turn.ended">, pen: Pen): TranscriptState {
  if (state.unread > UNREAD_SHOWN) writeUnread(pen, state.unread - UNREAD_SHOWN, event.session_id);
  writeTurnEnd(pen, event, state.turnStarted);
  return { ...initialTranscript(state.page), plan: state.plan };
}

/** Prints the event; returns false for an event that is not shown. */
function writeBlock(state: TranscriptState, event: SluiceEvent, pen: Pen): boolean {
  if (event.type === "turn.retrying") writeRetry(pen, event.data);
  else if (event.type === "permission.requested") writePermission(pen, event.data);
  else if (event.type === "permission.resolved") writePermissionAnswer(pen, event.data);
  else if (event.type === "question.requested") writeQuestion(pen, event.data);
  else if (event.type === "question.resolved") writeQuestionAnswer(pen, event.data);
  else if (event.type === "tool.requested") writeToolRequest(pen, event.data);
  else if (event.type === "tool.resolved") writeToolAnswer(pen, event.data);
  else if (event.type === "plan.updated") writePlan(pen, event.data.entries, state.plan);
  else if (event.type === "error" && !isRetried(event.data.details)) writeError(pen, event.data);
  else if (event.type === "session.ended") writeSessionEnd(pen, event.data);
  else return writeNote(event, pen);
  return true;
}

/** Prints a minor event as one dim line. */
function writeNote(event: SluiceEvent, pen: Pen): boolean {
  const note = toNote(event);
  if (note === undefined) return false;
  pen.line(pen.paint.dim(`· ${toOneLine(note, Math.min(pen.width, 400) - 2)}`));
  return true;
}

function toNote(event: SluiceEvent): string | undefined {
  if (event.type === "context.compacted") return "the conversation was compacted";
  if (event.type === "agent.unparsed")
    return `a line that could not be read, at ${event.data.location}: ${event.data.error}`;
  if (event.type === "sandbox.ready") {
    const { provider, isolated, message } = event.data;
    const words = message === undefined ? "" : ` (${message})`;
    return `${provider} sandbox${isolated === false ? ", not isolated" : ""}${words}`;
  }
  if (event.type === "sandbox.error") return `the sandbox failed: ${event.data.message ?? "no reason given"}`;
  if (event.type === "process.started" && event.data.resumed)
    return `${event.data.harness} continues ${event.data.resumed}`;
  if (event.type === "session.deleted") return "the session was deleted";
  if (event.type === "custom") return `${event.data.name}  ${JSON.stringify(event.data.value) ?? ""}`;
  return undefined;
}

/** Whether a `turn.retrying` event has the same error. */
function isRetried(details: unknown): boolean {
  return (
    typeof details === "object" && details !== null && "retrying" in details && details.retrying === true
  );
}

function shadowsOf(state: TranscriptState, event: SluiceEvent): readonly string[] {
  if (event.type === "plan.updated") return [...state.shadowed, "plan"];
  if (event.type === "context.compacted") return [...state.shadowed, "compacted", "context compacted"];
  return state.shadowed;
}

function writePermission(pen: Pen, data: EventOf<"permission.requested">["data"]): void {
  const subject = data.metadata === undefined ? "" : `  ${toRequestSubject(data.metadata)}`;
  pen.space();
  pen.line(
    `${pen.paint.yellow("?")} ${pen.paint.bold("permission")}  ${toOneLine(data.action, 200)}${pen.paint.dim(subject)}`,
  );
}

function writePermissionAnswer(pen: Pen, data: EventOf<"permission.resolved">["data"]): void {
  pen.line(
    data.status === "approved" ? `  ${pen.paint.green("✓ approved")}` : `  ${pen.paint.red("✗ denied")}`,
  );
}

function writeQuestion(pen: Pen, data: EventOf<"question.requested">["data"]): void {
  pen.space();
  // A plan to approve has many lines, and all of them matter.
  const [first = "", ...others] = data.prompt.split("\n");
  pen.line(`${pen.paint.yellow("?")} ${pen.paint.bold(toOneLine(first, 400))}`);
  for (const line of others) pen.line(`  ${toOneLine(line, 400)}`);
  for (const [n, option] of data.options.entries()) pen.line(`  ${n + 1}. ${toOneLine(option, 200)}`);
}

function writeQuestionAnswer(pen: Pen, data: EventOf<"question.resolved">["data"]): void {
  const answered = `  ${pen.paint.green("✓")} ${toOneLine(data.response ?? "answered", 400)}`;
  pen.line(data.status === "answered" ? answered : `  ${pen.paint.red("✗ not answered")}`);
}

function writeToolRequest(pen: Pen, data: EventOf<"tool.requested">["data"]): void {
  pen.space();
  const input = toOneLine(toText(data.input), 160);
  pen.line(`${pen.paint.yellow("?")} ${pen.paint.bold(toOneLine(data.name, 80))}  ${input}`);
  pen.line(pen.paint.dim("  waits for the application to run it"));
}

function writeToolAnswer(pen: Pen, data: EventOf<"tool.resolved">["data"]): void {
  const mark = data.status === "completed" ? pen.paint.green("✓") : pen.paint.red("✗");
  const text = data.content.map((part) => (part.type === "text" ? part.text : `[${part.type}]`)).join(" ");
  pen.line(`  ${mark} ${toOneLine(text || data.status, 400)}`);
}

/** Prints a new plan whole; of a plan that is shown already, only the entries with a new status. */
function writePlan(pen: Pen, entries: readonly PlanEntry[], shown: readonly PlanEntry[]): void {
  const isSame =
    entries.length === shown.length && entries.every((entry, n) => entry.content === shown[n]?.content);
  const changed = isSame ? entries.filter((entry, n) => entry.status !== shown[n]?.status) : entries;
  if (changed.length === 0) return;
  pen.space();
  if (!isSame) pen.line(pen.paint.bold("Plan"));
  for (const entry of changed) pen.line(`  ${toPlanLine(pen, entry)}`);
}

function toPlanLine({ paint, width }: Pen, entry: PlanEntry): string {
  const text = toOneLine(entry.content, Math.min(width, 400) - 4);
  if (entry.status === "completed") return `${paint.green("✓")} ${paint.dim(text)}`;
  return entry.status === "in_progress" ? `${paint.yellow("▸")} ${text}` : `${paint.dim("○")} ${text}`;
}

/** The tool's input in a permission's metadata, else the whole metadata. */
/** The input of a permission request in one line, such as the command to run. */
export function toRequestSubject(metadata: unknown): string {
  return toOneLine(toSubject(inputOf(metadata)), 160);
}

function inputOf(metadata: unknown): string {
  const { input } = (metadata ?? {}) as { input?: unknown };
  return toText(input ?? metadata);
}

function toText(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

function writeTurnEnd(pen: Pen, event: EventOf<"turn.ended">, startedAt: string | undefined): void {
  const { data, session_id: session } = event;
  const details = [
    startedAt && `in ${toDuration(Date.parse(event.time) - Date.parse(startedAt))}`,
    ...toUsage(data.usage),
  ];
  pen.space();
  pen.line(`${toVerdict(pen, data)} ${pen.paint.dim(details.filter(Boolean).join(" · "))}`.trimEnd());
  const help = data.status === "failed" ? helpFor(data) : undefined;
  if (help) pen.line(`  ${pen.hint(help)}`);
  if (!pen.isChat) pen.line(pen.paint.dim(`  session ${session} · replay it: ${pen.replayOf(session)}`));
}

/** Prints how many unreadable lines of the turn were not noted. */
function writeUnread(pen: Pen, count: number, session: string): void {
  const lines = count === 1 ? "1 more line" : `${toGrouped(count)} more lines`;
  const hint = `${pen.replayOf(session)} --as universal shows all`;
  pen.line(pen.paint.dim(`· ${lines} that could not be read, ${hint}`));
}

function writeRetry(pen: Pen, data: EventOf<"turn.retrying">["data"]): void {
  const tries = data.max_attempts ? `${data.attempt} of ${data.max_attempts}` : String(data.attempt);
  const why = toOneLine(data.error.message || data.error.code, 200);
  pen.line(pen.paint.yellow(`↻ ${why}: try ${tries} in ${toDuration(data.delay_ms)}`));
}

function writeError(pen: Pen, data: EventOf<"error">["data"]): void {
  const code = data.code ? ` (${toOneLine(data.code, 60)})` : "";
  pen.line(pen.paint.red(`✗ ${toOneLine(data.message, 600)}${code}`));
}

function writeSessionEnd(pen: Pen, data: EventOf<"session.ended">["data"]): void {
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

/** A turn whose agent never started ends as `agent_lost` too. Its error names the remedy already. */
function helpFor({ stop_reason: reason, error }: EventOf<"turn.ended">["data"]): string | undefined {
  const neverStarted =
    reason === "agent_lost" && error !== undefined && error.code !== "agent_process_exited";
  return neverStarted ? undefined : HELP[reason];
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
      : [`${toGrouped(input ?? 0)} tokens in, ${toGrouped(output ?? 0)} out`];
  return cost === undefined ? tokens : [...tokens, `$${cost.toFixed(4)}`];
}

/** 1,234,567 */
function toGrouped(count: number): string {
  return count.toLocaleString("en");
}

function toDuration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
}

function lastLines(stderr: StderrOutput | undefined): string[] {
  const text = toPrintable(stderr?.tail ?? stderr?.head ?? "").trimEnd();
  return text === "" ? [] : text.split("\n").slice(-10);
}
