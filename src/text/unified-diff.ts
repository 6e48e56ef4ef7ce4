const CONTEXT = 3;

/** The difference of two texts as a unified diff of one hunk; empty for equal texts. */
export function toUnifiedDiff(path: string, before: string, after: string): string {
  if (before === after) return "";
  const old = toLines(before);
  const fresh = toLines(after);
  const shorter = Math.min(old.length, fresh.length);
  // The count of equal lines at the start of both texts, then at their end.
  let sameStart = 0;
  while (sameStart < shorter && old[sameStart] === fresh[sameStart]) sameStart++;
  let sameEnd = 0;
  while (sameEnd < shorter - sameStart && old[old.length - 1 - sameEnd] === fresh[fresh.length - 1 - sameEnd])
    sameEnd++;

  const from = Math.max(0, sameStart - CONTEXT);
  const context = Math.min(CONTEXT, sameEnd);
  const oldEnd = old.length - sameEnd;
  const freshEnd = fresh.length - sameEnd;
  const hunk = [
    ...old.slice(from, sameStart).map((line) => printed(" ", line)),
    ...old.slice(sameStart, oldEnd).map((line) => printed("-", line)),
    ...fresh.slice(sameStart, freshEnd).map((line) => printed("+", line)),
    ...old.slice(oldEnd, oldEnd + context).map((line) => printed(" ", line)),
  ];
  const spans = `-${span(from, oldEnd + context)} +${span(from, freshEnd + context)}`;
  const name = path.replace(/^\/+/, "");
  return `--- a/${name}\n+++ b/${name}\n@@ ${spans} @@\n${hunk.join("")}`;
}

/** Lines with their newline, so that a missing last newline is a difference, too. */
function toLines(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

function printed(mark: string, line: string): string {
  return line.endsWith("\n") ? mark + line : `${mark}${line}\n\\ No newline at end of file\n`;
}

/** The span of a hunk's header, for the lines from `from` to `end`. An empty span names the line before it. */
function span(from: number, end: number): string {
  const count = end - from;
  if (count === 0) return `${from},0`;
  return count === 1 ? `${from + 1}` : `${from + 1},${count}`;
}
