/** The texts before and after a unified diff, as far as its hunks show them. */
export function fromUnifiedDiff(diff: string): { oldText: string | null; newText: string } {
  const { hunks, isNew } = parse(diff);
  const oldText = isNew ? null : hunks.flatMap(({ before }) => before).join("");
  return { oldText, newText: hunks.flatMap(({ after }) => after).join("") };
}

/** The whole old text from a diff and the whole new text; undefined if they do not match. */
export function undoUnifiedDiff(diff: string, newText: string): string | undefined {
  const { hunks } = parse(diff);
  const lines = newText.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  for (const { at, before, after } of hunks.toReversed()) {
    if (after.some((line, index) => lines[at + index] !== line)) return undefined;
    lines.splice(at, after.length, ...before);
  }
  return hunks.length === 0 ? undefined : lines.join("");
}

interface Hunk {
  /** The index of the hunk's first line in the new text. */
  readonly at: number;
  readonly before: string[];
  readonly after: string[];
}

function parse(diff: string): { hunks: readonly Hunk[]; isNew: boolean } {
  const hunks: Hunk[] = [];
  let last: string[][] = [];
  let isNew = false;
  for (const line of diff.split("\n")) {
    const hunk = hunks.at(-1);
    if (line.startsWith("@@")) {
      hunks.push({ at: startOf(line), before: [], after: [] });
      continue;
    }
    if (!hunk) {
      if (line.startsWith("--- /dev/null")) isNew = true;
      continue;
    }
    const [sign, text] = [line[0], line.slice(1)];
    if (sign === "\\") for (const lines of last) cutNewline(lines);
    const { before, after } = hunk;
    last = sign === " " ? [before, after] : sign === "-" ? [before] : sign === "+" ? [after] : [];
    for (const lines of last) lines.push(`${text}\n`);
  }
  return { hunks, isNew };
}

/** The index of a hunk's first line in the new text. The header of an empty range has the line before it. */
function startOf(header: string): number {
  const [, start = "1", count] = /\+(\d+)(?:,(\d+))?/.exec(header) ?? [];
  return count === "0" ? Number(start) : Number(start) - 1;
}

function cutNewline(lines: string[]): void {
  const text = lines.pop();
  if (text !== undefined) lines.push(text.replace(/\n$/, ""));
}
