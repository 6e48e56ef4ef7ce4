const CONTEXT = 3;

/** The difference of two texts as a unified diff of one hunk; empty for equal texts. */
export function toUnifiedDiff(path: string, before: string, after: string): string {
  if (before === after) return "";
  const old = toLines(before);
  const now = toLines(after);
  const shorter = Math.min(old.length, now.length);
  let same = 0;
  while (same < shorter && old[same] === now[same]) same++;
  let tail = 0;
  while (tail < shorter - same && old[old.length - 1 - tail] === now[now.length - 1 - tail]) tail++;

  const from = Math.max(0, same - CONTEXT);
  const context = Math.min(CONTEXT, tail);
  const oldEnd = old.length - tail;
  const nowEnd = now.length - tail;
  const hunk = [
    ...old.slice(from, same).map((line) => printed(" ", line)),
    ...old.slice(same, oldEnd).map((line) => printed("-", line)),
    ...now.slice(same, nowEnd).map((line) => printed("+", line)),
    ...old.slice(oldEnd, oldEnd + context).map((line) => printed(" ", line)),
  ];
  const spans = `-${span(from, oldEnd + context)} +${span(from, nowEnd + context)}`;
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
