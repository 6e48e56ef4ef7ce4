import { toQuoted } from "./git.ts";

const CONTEXT = 3;

/**
 * The difference of two texts of one file as a unified diff; empty for equal texts. An undefined text stands for a
 * missing file.
 */
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

/** Groups changes that lie close together, with the lines around them. */
function toHunks(edits: readonly Edit[]): Hunk[] {
  const hunks: Hunk[] = [];
  let open: (Hunk & { edits: Edit[] }) | undefined;
  let oldLine = 0;
  let newLine = 0;
  /** Unchanged lines since the last change. A hunk keeps `CONTEXT` of them. */
  let unchanged = 0;
  for (const [at, edit] of edits.entries()) {
    if (edit.mark !== " ") {
      if (!open) {
        const lead = edits.slice(Math.max(0, at - CONTEXT), at);
        open = { oldStart: oldLine - lead.length, newStart: newLine - lead.length, edits: [...lead] };
        hunks.push(open);
      }
      unchanged = 0;
    } else unchanged += 1;
    open?.edits.push(edit);
    if (edit.mark !== "+") oldLine += 1;
    if (edit.mark !== "-") newLine += 1;
    // The next change is too far away to share this hunk.
    if (open && unchanged > 2 * CONTEXT) {
      dropLast(open.edits, unchanged - CONTEXT);
      open = undefined;
    }
  }
  if (open && unchanged > CONTEXT) dropLast(open.edits, unchanged - CONTEXT);
  return hunks;
}

function dropLast(edits: Edit[], count: number): void {
  edits.splice(edits.length - count);
}

function printHunk({ oldStart, newStart, edits }: Hunk): string {
  const oldCount = edits.filter(({ mark }) => mark !== "+").length;
  const newCount = edits.filter(({ mark }) => mark !== "-").length;
  const body = edits.map(({ mark, line }) =>
    line.endsWith("\n") ? mark + line : `${mark}${line}\n\\ No newline at end of file\n`,
  );
  return `@@ -${span(oldStart, oldCount)} +${span(newStart, newCount)} @@\n${body.join("")}`;
}

/** The span of a hunk's header. An empty span names the line before it. */
function span(start: number, count: number): string {
  if (count === 0) return `${start},0`;
  return count === 1 ? `${start + 1}` : `${start + 1},${count}`;
}

/** Lines with their newline, so that a missing last newline is a difference too. */
function toLines(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

interface Edit {
  readonly mark: " " | "-" | "+";
  readonly line: string;
}

/** Above this number of differing lines the shortest script is not searched. */
const MAX_DISTANCE = 400;

/** A shortest edit script between two lists of lines (Myers). If they have little in common, it replaces all lines. */
function toEdits(before: readonly string[], after: readonly string[]): Edit[] {
  const shorter = Math.min(before.length, after.length);
  let head = 0;
  while (head < shorter && before[head] === after[head]) head++;
  let tail = 0;
  while (tail < shorter - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail++;
  return [
    ...before.slice(0, head).map((line) => toEdit(" ", line)),
    ...toMiddle(before.slice(head, before.length - tail), after.slice(head, after.length - tail)),
    ...before.slice(before.length - tail).map((line) => toEdit(" ", line)),
  ];
}

/** Edits between texts that differ in their first and last line. Walks the trace of `search` back from its end. */
function toMiddle(before: readonly string[], after: readonly string[]): Edit[] {
  const trace = search(before, after);
  if (!trace) {
    return [...before.map((line) => toEdit("-", line)), ...after.map((line) => toEdit("+", line))];
  }
  const edits: Edit[] = [];
  let [x, y] = [before.length, after.length];
  for (let distance = trace.length - 1; distance >= 0; distance--) {
    const reach = trace[distance] as Reach;
    const diagonal = endsWithAddition(reach, x - y, distance) ? x - y + 1 : x - y - 1;
    const fromX = reach.get(diagonal) ?? 0;
    const fromY = fromX - diagonal;
    while (x > fromX && y > fromY) {
      x -= 1;
      y -= 1;
      edits.push({ mark: " ", line: before[x] as string });
    }
    if (distance === 0) break;
    if (x === fromX) edits.push({ mark: "+", line: after[fromY] as string });
    else edits.push({ mark: "-", line: before[fromX] as string });
    [x, y] = [fromX, fromY];
  }
  return edits.toReversed();
}

/** How many lines of the first text a number of edits can reach, by diagonal: lines removed less lines added. */
type Reach = ReadonlyMap<number, number>;

/** The reach before each further edit, until both texts end; undefined above `MAX_DISTANCE`. */
function search(before: readonly string[], after: readonly string[]): Reach[] | undefined {
  const trace: Reach[] = [];
  const reach = new Map([[1, 0]]);
  const limit = Math.min(before.length + after.length, MAX_DISTANCE);
  for (let distance = 0; distance <= limit; distance++) {
    trace.push(new Map(reach));
    for (let diagonal = -distance; diagonal <= distance; diagonal += 2) {
      const isAddition = endsWithAddition(reach, diagonal, distance);
      let x = isAddition ? (reach.get(diagonal + 1) ?? 0) : (reach.get(diagonal - 1) ?? 0) + 1;
      while (x < before.length && x - diagonal < after.length && before[x] === after[x - diagonal]) x += 1;
      reach.set(diagonal, x);
      if (x >= before.length && x - diagonal >= after.length) return trace;
    }
  }
  return undefined;
}

/** Whether the best way to a diagonal ends with an added line; otherwise it ends with a removed one. */
function endsWithAddition(reach: Reach, diagonal: number, distance: number): boolean {
  if (diagonal === -distance) return true;
  return diagonal !== distance && (reach.get(diagonal - 1) ?? 0) < (reach.get(diagonal + 1) ?? 0);
}

function toEdit(mark: Edit["mark"], line: string): Edit {
  return { mark, line };
}
