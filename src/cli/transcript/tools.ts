import { parseOthersJson } from "../../contract/index.ts";
import type { Pen } from "./pen.ts";
import { cut, toOneLine, toPrintable } from "./clean.ts";
import type { Output } from "./state.ts";

const LINES_SHOWN = 8;
const LINES_OF_FAILURE = 4;
const LONGEST = 400;

/** `● shell  ls -la` */
export function toCallHeader(pen: Pen, call: { name: string; arguments: string }): string {
  const name = toOneLine(call.name, 40);
  const what = toOneLine(toSubject(call.arguments), Math.min(pen.width, LONGEST) - name.length - 4);
  return `${pen.paint.cyan("●")} ${pen.paint.bold(name)}${what && `  ${what}`}`;
}

/** Shows what is new of an output, in whole lines, until enough is shown. */
export function writeOutput(pen: Pen, output: Output, text: string, indent: string): Output {
  const lines = (output.partial + toPrintable(text)).split("\n");
  // Nobody sees more of a line than its beginning.
  const partial = (lines.pop() ?? "").slice(0, 10 * LONGEST);
  return lines.reduce((sofar, line) => writeLine(pen, sofar, line, indent), { ...output, partial });
}

/** Shows what is left to say once the output is complete. */
export function endOutput(
  pen: Pen,
  output: Output,
  end: { failed: boolean; indent: string; session: string },
): void {
  const whole = writeOutput(pen, output, "", end.indent);
  const all = whole.partial === "" ? whole : writeLine(pen, whole, whole.partial, end.indent);
  const tail = end.failed ? all.last.slice(-Math.min(LINES_OF_FAILURE, all.total - all.shown)) : [];
  const hidden = all.total - all.shown - tail.length;
  if (hidden > 0) {
    const lines = hidden === 1 ? "1 more line" : `${hidden.toLocaleString("en")} more lines`;
    const how = `${pen.replayOf(end.session)} --as universal shows all`;
    pen.line(pen.paint.dim(`${end.indent}… ${lines}, ${how}`));
  }
  for (const line of tail) pen.line(pen.paint.dim(fit(pen, line, end.indent)));
}

export function writeDiff(pen: Pen, diff: string, indent: string, session: string): void {
  const lines = toPrintable(diff).replace(/\n$/, "").split("\n");
  const most = 24;
  for (const line of lines.slice(0, most)) pen.line(paintDiffLine(pen, line, fit(pen, line, indent)));
  if (lines.length <= most) return;
  const rest = `${lines.length - most} more lines, ${pen.replayOf(session)} --as universal shows all`;
  pen.line(pen.paint.dim(`${indent}… ${rest}`));
}

/** The one argument that says most: a command, a path; else all of them. */
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
  try {
    const parsed: unknown = parseOthersJson(args || "{}");
    return typeof parsed === "object" && parsed !== null ? (parsed as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function writeLine(pen: Pen, output: Output, line: string, indent: string): Output {
  const total = output.total + 1;
  if (output.shown >= LINES_SHOWN) {
    return { ...output, total, last: [...output.last.slice(1 - LINES_OF_FAILURE), line] };
  }
  pen.line(pen.paint.dim(fit(pen, line, indent)));
  return { ...output, total, shown: output.shown + 1 };
}

function fit(pen: Pen, line: string, indent: string): string {
  return indent + cut(line.replaceAll("\t", "  "), Math.min(pen.width, LONGEST) - indent.length);
}

function paintDiffLine(pen: Pen, line: string, text: string): string {
  if (line.startsWith("+++") || line.startsWith("---")) return pen.paint.dim(text);
  if (line.startsWith("+")) return pen.paint.green(text);
  if (line.startsWith("-")) return pen.paint.red(text);
  if (line.startsWith("@@")) return pen.paint.cyan(text);
  return pen.paint.dim(text);
}
