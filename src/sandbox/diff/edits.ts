export interface Edit {
  readonly mark: " " | "-" | "+";
  readonly line: string;
}

/** Beyond so many differing lines the shortest script is not worth its search. */
const MAX_DISTANCE = 400;

/** A shortest way from one list of lines to another (Myers); where they have little in common, all out and all in. */
export function toEdits(before: readonly string[], after: readonly string[]): Edit[] {
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

function toMiddle(before: readonly string[], after: readonly string[]): Edit[] {
  const trace = search(before, after);
  if (!trace) {
    return [...before.map((line) => toEdit("-", line)), ...after.map((line) => toEdit("+", line))];
  }
  const edits: Edit[] = [];
  let [x, y] = [before.length, after.length];
  for (let distance = trace.length - 1; distance >= 0; distance--) {
    const reach = trace[distance] as Reach;
    const diagonal = comesFromAbove(reach, x - y, distance) ? x - y + 1 : x - y - 1;
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

/** How far each diagonal is reached with so many edits. */
type Reach = ReadonlyMap<number, number>;

/** What was reached before each further edit, until both ends are met. */
function search(before: readonly string[], after: readonly string[]): Reach[] | undefined {
  const trace: Reach[] = [];
  const reach = new Map([[1, 0]]);
  const limit = Math.min(before.length + after.length, MAX_DISTANCE);
  for (let distance = 0; distance <= limit; distance++) {
    trace.push(new Map(reach));
    for (let diagonal = -distance; diagonal <= distance; diagonal += 2) {
      const above = comesFromAbove(reach, diagonal, distance);
      let x = above ? (reach.get(diagonal + 1) ?? 0) : (reach.get(diagonal - 1) ?? 0) + 1;
      while (x < before.length && x - diagonal < after.length && before[x] === after[x - diagonal]) x += 1;
      reach.set(diagonal, x);
      if (x >= before.length && x - diagonal >= after.length) return trace;
    }
  }
  return undefined;
}

function comesFromAbove(reach: Reach, diagonal: number, distance: number): boolean {
  if (diagonal === -distance) return true;
  return diagonal !== distance && (reach.get(diagonal - 1) ?? 0) < (reach.get(diagonal + 1) ?? 0);
}

function toEdit(mark: Edit["mark"], line: string): Edit {
  return { mark, line };
}
