import { diffWordsWithSpace, parsePatch } from "diff";
import type { ComponentChildren, JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { toVisible } from "../core/format.ts";

/** Lines that exist at once: a diff of any length costs as many elements. */
const SHOWN_LINES = 150;
/** Words of longer lines are not compared. */
const MAX_WORDS_LINE = 400;

interface Line {
  readonly kind: "add" | "remove" | "same" | "head";
  readonly old: number | undefined;
  readonly new: number | undefined;
  readonly text: string;
  /** The line that it replaces, or that replaces it. */
  readonly pair?: string | undefined;
}

/** A unified diff with the changed words marked. */
export function Diff({ diff, label }: { diff: string; label: string }): JSX.Element {
  const [from, setFrom] = useState(0);
  const lines = useMemo(() => toLines(toVisible(diff)), [diff]);
  if (!lines)
    return (
      <pre class="code" tabIndex={0}>
        {toVisible(diff.slice(0, 20_000))}
      </pre>
    );
  const first = from < lines.length ? from : 0;
  const rest = lines.length - first - SHOWN_LINES;
  return (
    <div class="diff" role="region" tabIndex={0} aria-label={`Diff of ${label}`}>
      {first > 0 && (
        <button class="more" onClick={() => setFrom(first - SHOWN_LINES)}>
          Show the {SHOWN_LINES} lines before
        </button>
      )}
      <table>
        <tbody>
          {lines.slice(first, first + SHOWN_LINES).map((line, index) => (
            <tr key={first + index} class={`diff-${line.kind}`}>
              <td class="diff-number">{line.old}</td>
              <td class="diff-number">{line.new}</td>
              <td class="diff-sign">{SIGNS[line.kind]}</td>
              <td class="diff-text">{markWords(line)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rest > 0 && (
        <button class="more" onClick={() => setFrom(first + SHOWN_LINES)}>
          Show the next {Math.min(SHOWN_LINES, rest)} of {rest} lines
        </button>
      )}
    </div>
  );
}

const SIGNS = { add: "+", remove: "−", same: "", head: "" } as const;

/** How many lines were added and removed. */
export function countChanges(diff: string): { added: number; removed: number } {
  let [added, removed] = [0, 0];
  for (const line of diff.split("\n")) {
    if (line.startsWith("+") && !line.startsWith("+++")) added += 1;
    if (line.startsWith("-") && !line.startsWith("---")) removed += 1;
  }
  return { added, removed };
}

function toLines(diff: string): Line[] | undefined {
  try {
    const files = parsePatch(diff);
    const lines: Line[] = [];
    for (const file of files) {
      if (files.length > 1 && file.newFileName !== undefined)
        lines.push({ kind: "head", old: undefined, new: undefined, text: file.newFileName });
      for (const hunk of file.hunks) {
        lines.push({ kind: "head", old: undefined, new: undefined, text: `line ${hunk.newStart}` });
        let [before, after] = [hunk.oldStart, hunk.newStart];
        const removed: number[] = [];
        for (const text of hunk.lines) {
          const body = text.slice(1);
          if (text.startsWith("-")) {
            removed.push(lines.length);
            lines.push({ kind: "remove", old: before++, new: undefined, text: body });
          } else if (text.startsWith("+")) {
            const at = removed.shift();
            const pair = at === undefined ? undefined : lines[at];
            if (at !== undefined && pair) lines[at] = { ...pair, pair: body };
            lines.push({ kind: "add", old: undefined, new: after++, text: body, pair: pair?.text });
          } else if (!text.startsWith("\\")) {
            removed.length = 0;
            lines.push({ kind: "same", old: before++, new: after++, text: body });
          }
        }
      }
    }
    return lines.length > 0 ? lines : undefined;
  } catch {
    return undefined;
  }
}

function markWords({ kind, text, pair }: Line): ComponentChildren {
  if (pair === undefined || text.length > MAX_WORDS_LINE || pair.length > MAX_WORDS_LINE) return text;
  const [before, after] = kind === "add" ? [pair, text] : [text, pair];
  const wanted = kind === "add" ? "added" : "removed";
  return diffWordsWithSpace(before, after)
    .filter((part) => part[wanted] || (!part.added && !part.removed))
    .map((part, index) => (part[wanted] ? <mark key={index}>{part.value}</mark> : part.value));
}
