import { parseJsonOr } from "../../contract/index.ts";
import { cut, type Pen, toOneLine, toPrintable } from "./pen.ts";
import type { Output } from "./state.ts";

/** The count of an output's first lines that are printed. */
const LINES_SHOWN = 8;
/** The count of its last lines that are printed after a failure. */
const FAILURE_LINES = 4;
const WIDTH_LIMIT = 400;
const DIFF_LINES = 24;

/** `● shell  ls -la` */
export function toCallHeader(pen: Pen, call: { name: string; arguments: string }): string {
  const name = toOneLine(call.name, 40);
  const subject = toOneLine(toSubject(call.arguments), Math.min(pen.width, WIDTH_LIMIT) - name.length - 4);
  return `${pen.paint.cyan("●")} ${pen.paint.bold(name)}${subject && `  ${subject}`}`;
}

/** Prints new output in whole lines, up to the limit. */
export function writeOutput(pen: Pen, output: Output, text: string, indent: string): Output {
  const lines = (output.partial + toPrintable(text)).split("\n");
  // The rest of a long line is never printed, so it is not kept.
  const partial = (lines.pop() ?? "").slice(0, 10 * WIDTH_LIMIT);
  return lines.reduce((sofar, line) => writeLine(pen, sofar, line, indent), { ...output, partial });
}

/** Prints the end of an output: its last line, the count of hidden lines and, after a failure, some of them. */
export function endOutput(
  pen: Pen,
  output: Output,
  end: { failed: boolean; indent: string; session: string },
): void {
  // A withheld output lies in `partial` with all of its lines.
  const whole = writeOutput(pen, output, "", end.indent);
  const all = whole.partial === "" ? whole : writeLine(pen, whole, whole.partial, end.indent);
  const tail = end.failed ? all.last.slice(-Math.min(FAILURE_LINES, all.total - all.shown)) : [];
  const hidden = all.total - all.shown - tail.length;
  if (hidden > 0) {
    const lines = hidden === 1 ? "1 more line" : `${hidden.toLocaleString("en")} more lines`;
    const hint = `${pen.replayOf(end.session)} --as universal shows all`;
    pen.line(pen.paint.dim(`${end.indent}… ${lines}, ${hint}`));
  }
  for (const line of tail) pen.line(pen.paint.dim(fit(pen, line, end.indent)));
}

export function writeDiff(pen: Pen, diff: string, indent: string, session: string): void {
  const lines = toPrintable(diff).replace(/\n$/, "").split("\n");
  for (const line of lines.slice(0, DIFF_LINES)) pen.line(paintDiffLine(pen, line, fit(pen, line, indent)));
  if (lines.length <= DIFF_LINES) return;
  const rest = `${lines.length - DIFF_LINES} more lines, ${pen.replayOf(session)} --as universal shows all`;
  pen.line(pen.paint.dim(`${indent}… ${rest}`));
}

/** The most telling argument, such as a command or a path; else all arguments. */
export function toSubject(args: string): string {
  const parsed = parseArguments(args);
  if (parsed === undefined) return args;
  const known = ["command", "cmd", "path", "file_path", "filePath", "pattern", "query", "url"];
  const subject = known.map((key) => parsed[key]).find((value) => value !== undefined);
  if (typeof subject === "string") return subject;
  if (Array.isArray(subject)) return subject.join(" ");
  return Object.keys(parsed).length === 0 ? "" : JSON.stringify(parsed);
}

function parseArguments(args: string): Record<string, unknown> | undefined {
  const parsed = parseJsonOr(args || "{}", undefined);
  return typeof parsed === "object" && parsed !== null ? (parsed as Record<string, unknown>) : undefined;
}

function writeLine(pen: Pen, output: Output, line: string, indent: string): Output {
  const total = output.total + 1;
  if (output.shown >= LINES_SHOWN) {
    return { ...output, total, last: [...output.last.slice(1 - FAILURE_LINES), line] };
  }
  pen.line(pen.paint.dim(fit(pen, line, indent)));
  return { ...output, total, shown: output.shown + 1 };
}

function fit(pen: Pen, line: string, indent: string): string {
  return indent + cut(line.replaceAll("\t", "  "), Math.min(pen.width, WIDTH_LIMIT) - indent.length);
}

function paintDiffLine(pen: Pen, line: string, text: string): string {
  if (line.startsWith("+++") || line.startsWith("---")) return pen.paint.dim(text);
  if (line.startsWith("+")) return pen.paint.green(text);
  if (line.startsWith("-")) return pen.paint.red(text);
  if (line.startsWith("@@")) return pen.paint.cyan(text);
  return pen.paint.dim(text);
}
