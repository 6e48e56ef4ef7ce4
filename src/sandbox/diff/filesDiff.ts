import { toEdits, type Edit } from "./edits.ts";
import { toQuoted } from "./quote.ts";

const CONTEXT = 3;

/** The difference of two texts of one file as a unified diff; empty where there is none. No text is no file. */
export function filesDiff(before: string | undefined, after: string | undefined, path: string): string {
  if (before === after) return "";
  const edits = toEdits(toLines(before ?? ""), toLines(after ?? ""));
  const from = before === undefined ? "/dev/null" : toQuoted(`a/${path}`);
  const to = after === undefined ? "/dev/null" : toQuoted(`b/${path}`);
  return `--- ${from}\n+++ ${to}\n${toHunks(edits).map(printHunk).join("")}`;
}

interface Hunk {
  readonly oldStart: number;
  readonly newStart: number;
  readonly edits: readonly Edit[];
}

/** Changes that lie close together, with the lines around them. */
function toHunks(edits: readonly Edit[]): Hunk[] {
  const hunks: Hunk[] = [];
  let [oldLine, newLine, open] = [0, 0, undefined as (Hunk & { edits: Edit[] }) | undefined];
  let quiet = 0;
  for (const [at, edit] of edits.entries()) {
    if (edit.mark !== " ") {
      if (!open) {
        const lead = edits.slice(Math.max(0, at - CONTEXT), at);
        open = { oldStart: oldLine - lead.length, newStart: newLine - lead.length, edits: [...lead] };
        hunks.push(open);
      }
      quiet = 0;
    } else quiet += 1;
    open?.edits.push(edit);
    if (edit.mark !== "+") oldLine += 1;
    if (edit.mark !== "-") newLine += 1;
    if (open && quiet > 2 * CONTEXT) {
      open.edits.splice(open.edits.length - (quiet - CONTEXT));
      open = undefined;
    }
  }
  if (open && quiet > CONTEXT) open.edits.splice(open.edits.length - (quiet - CONTEXT));
  return hunks;
}

function printHunk({ oldStart, newStart, edits }: Hunk): string {
  const oldCount = edits.filter(({ mark }) => mark !== "+").length;
  const newCount = edits.filter(({ mark }) => mark !== "-").length;
  const body = edits.map(({ mark, line }) =>
    line.endsWith("\n") ? mark + line : `${mark}${line}\n\\ No newline at end of file\n`,
  );
  return `@@ -${span(oldStart, oldCount)} +${span(newStart, newCount)} @@\n${body.join("")}`;
}

/** As a hunk's header counts lines: an empty span names the line before it. */
function span(start: number, count: number): string {
  if (count === 0) return `${start},0`;
  return count === 1 ? `${start + 1}` : `${start + 1},${count}`;
}

/** Lines with their newline, so that a missing last one is a difference too. */
function toLines(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}
