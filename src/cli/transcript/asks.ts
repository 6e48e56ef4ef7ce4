import type { EventOf, PlanEntry } from "../../contract/index.ts";
import { toOneLine } from "./clean.ts";
import type { Pen } from "./pen.ts";
import { toSubject } from "./tools.ts";

/** The lines of everything that waits for somebody's answer, and of the answer. */

export function writePermission(pen: Pen, data: EventOf<"permission.requested">["data"]): void {
  const what = data.metadata === undefined ? "" : `  ${toOneLine(toSubject(subjectOf(data.metadata)), 160)}`;
  pen.space();
  pen.line(
    `${pen.paint.yellow("?")} ${pen.paint.bold("permission")}  ${toOneLine(data.action, 200)}${pen.paint.dim(what)}`,
  );
}

export function writePermissionAnswer(pen: Pen, data: EventOf<"permission.resolved">["data"]): void {
  pen.line(
    data.status === "approved" ? `  ${pen.paint.green("✓ approved")}` : `  ${pen.paint.red("✗ denied")}`,
  );
}

export function writeQuestion(pen: Pen, data: EventOf<"question.requested">["data"]): void {
  pen.space();
  // A plan that is to be approved has many lines, and all of them count.
  const [first = "", ...others] = data.prompt.split("\n");
  pen.line(`${pen.paint.yellow("?")} ${pen.paint.bold(toOneLine(first, 400))}`);
  for (const line of others) pen.line(`  ${toOneLine(line, 400)}`);
  for (const [n, option] of data.options.entries()) pen.line(`  ${n + 1}. ${toOneLine(option, 200)}`);
}

export function writeQuestionAnswer(pen: Pen, data: EventOf<"question.resolved">["data"]): void {
  const answered = `  ${pen.paint.green("✓")} ${toOneLine(data.response ?? "answered", 400)}`;
  pen.line(data.status === "answered" ? answered : `  ${pen.paint.red("✗ not answered")}`);
}

export function writeToolRequest(pen: Pen, data: EventOf<"tool.requested">["data"]): void {
  pen.space();
  const input = toOneLine(toText(data.input), 160);
  pen.line(`${pen.paint.yellow("?")} ${pen.paint.bold(toOneLine(data.name, 80))}  ${input}`);
  pen.line(pen.paint.dim("  waits for the application to run it"));
}

export function writeToolAnswer(pen: Pen, data: EventOf<"tool.resolved">["data"]): void {
  const mark = data.status === "completed" ? pen.paint.green("✓") : pen.paint.red("✗");
  const text = data.content.map((part) => (part.type === "text" ? part.text : `[${part.type}]`)).join(" ");
  pen.line(`  ${mark} ${toOneLine(text || data.status, 400)}`);
}

/** The whole list at first; later, as long as it is the same list, what has moved in it. */
export function writePlan(pen: Pen, entries: readonly PlanEntry[], shown: readonly PlanEntry[]): void {
  const isSame =
    entries.length === shown.length && entries.every((entry, n) => entry.content === shown[n]?.content);
  const moved = isSame ? entries.filter((entry, n) => entry.status !== shown[n]?.status) : entries;
  if (moved.length === 0) return;
  pen.space();
  if (!isSame) pen.line(pen.paint.bold("Plan"));
  for (const entry of moved) pen.line(`  ${toPlanLine(pen, entry)}`);
}

function toPlanLine({ paint, width }: Pen, entry: PlanEntry): string {
  const text = toOneLine(entry.content, Math.min(width, 400) - 4);
  if (entry.status === "completed") return `${paint.green("✓")} ${paint.dim(text)}`;
  return entry.status === "in_progress" ? `${paint.yellow("▸")} ${text}` : `${paint.dim("○")} ${text}`;
}

/** A permission's metadata may hold the tool's own input, which says more than all of it. */
function subjectOf(metadata: unknown): string {
  const { input } = (metadata ?? {}) as { input?: unknown };
  return toText(input ?? metadata);
}

function toText(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}
