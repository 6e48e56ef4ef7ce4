/** The text before and after a unified diff: the whole files where it shows them whole, else what its hunks show. */
export function fromUnifiedDiff(diff: string): { oldText: string | null; newText: string } {
  const before: string[] = [];
  const after: string[] = [];
  let last: string[][] = [];
  let inHunk = false;
  let isNew = false;
  for (const line of diff.split("\n")) {
    if (line.startsWith("@@")) {
      inHunk = true;
      continue;
    }
    if (!inHunk) {
      if (line.startsWith("--- /dev/null")) isNew = true;
      continue;
    }
    const [sign, text] = [line[0], line.slice(1)];
    if (sign === "\\") for (const lines of last) cutNewline(lines);
    last = sign === " " ? [before, after] : sign === "-" ? [before] : sign === "+" ? [after] : [];
    for (const lines of last) lines.push(`${text}\n`);
  }
  return { oldText: isNew ? null : before.join(""), newText: after.join("") };
}

function cutNewline(lines: string[]): void {
  const text = lines.pop();
  if (text !== undefined) lines.push(text.replace(/\n$/, ""));
}
