import type { JSX } from "preact";
import { copy, say } from "../core/announce.ts";
import { wordsOf } from "../core/api.ts";
import { toClock } from "../core/format.ts";
import { linkTo } from "../core/route.ts";
import type { SessionView } from "../core/session-view.ts";
import type { RowView } from "../log/protocol.ts";
import { Icon } from "../parts/icon.tsx";

/** Copies a row, its turn, or the whole thread up to the shown moment. */
export async function copyMarkdown(
  view: SessionView,
  what: "item" | "turn" | "thread",
  row?: RowView,
): Promise<void> {
  if (what !== "thread" && !row) return say(`There is no ${what} here to copy.`, "bad");
  try {
    const text = await view.call("markdown", rangeOf(view, what, row));
    await copy(text, `The ${what}`);
  } catch (error) {
    say(`The ${what} was not copied. ${wordsOf(error)}`, "bad");
  }
}

function rangeOf(
  view: SessionView,
  what: "item" | "turn" | "thread",
  row: RowView | undefined,
): { from: number; to: number; only?: true } {
  if (what === "thread" || !row) return { from: 0, to: view.now };
  if (what === "item") return { from: row.sequence, to: view.now, only: true };
  const turns = view.turns.value;
  const at = turns.findLastIndex(({ first }) => first <= row.sequence);
  const next = turns[at + 1];
  // Before the first turn there is none: then the item is all there is.
  return { from: turns[at]?.first ?? row.sequence, to: next ? next.first - 1 : view.now };
}

/** The place of a row: its link, and a button that copies it. */
export function RowPlace({ view, row }: { view: SessionView; row: RowView }): JSX.Element {
  const what = row.kind === "turn" ? "turn" : "item";
  return (
    <span class="row-place">
      <button
        class="row-copy quiet"
        aria-label={`Copy ${what} ${row.sequence} as markdown`}
        title={`Copy the ${what} as markdown`}
        onClick={() => void copyMarkdown(view, what, row)}
      >
        <Icon name="copy" />
      </button>
      <a
        class="row-link"
        href={linkTo(view.id, row.last)}
        title={`event ${row.sequence}, ${toClock(row.time)}`}
      >
        {row.sequence}
      </a>
    </span>
  );
}
