import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { wordsOf } from "../../core/api.ts";
import { toCount, toLine } from "../../core/format.ts";
import { isFile, type SessionView } from "../../core/session-view.ts";
import { countChanges, Diff } from "../../parts/diff.tsx";
import { type Change, readDiff, readTurnChanges, readWholeDiff, splitDiff } from "./sources.ts";

/** Files whose diffs are listed at once; more on request. */
const SHOWN = 30;
const OPEN_AT_FIRST = 3;

interface Found {
  readonly changes: readonly Change[];
  readonly others: readonly { type: string; path: string }[];
  readonly words: string;
}

/** The diffs of the shown moment: all, of its turn, or since a checkpoint. */
export function Changes({
  view,
  onOpen,
}: {
  view: SessionView;
  onOpen?: (path: string, line: number) => void;
}): JSX.Element {
  const [range, setRange] = useState("turn");
  const [shown, setShown] = useState(SHOWN);
  const at = view.screen.value?.at ?? 0;
  const checkpoints = isFile()
    ? []
    : view.marks.value.filter(({ kind, sequence }) => kind === "checkpoint" && sequence <= at);
  const { found, failure } = useChanges(view, range);
  useEffect(() => setShown(SHOWN), [range]);
  return (
    <section class="changes" aria-label="Changes">
      <div class="toolbar" role="group" aria-label="Range of the changes">
        <button aria-pressed={range === "turn"} onClick={() => setRange("turn")}>
          This turn
        </button>
        <button aria-pressed={range === "all"} onClick={() => setRange("all")}>
          All
        </button>
        {checkpoints.length > 0 && (
          <label>
            Since{" "}
            <select value={range} onChange={(event) => setRange(event.currentTarget.value)}>
              <option value="turn">a checkpoint…</option>
              {checkpoints.slice(-100).map(({ id, sequence, label }) => (
                <option key={sequence} value={id}>
                  ⚑ {toCount(sequence)} {toLine(label, 40)}
                </option>
              ))}
            </select>
          </label>
        )}
      </div>
      {failure !== "" && <p class="empty error">The changes could not be read. {failure}</p>}
      {!found && failure === "" && <p class="empty muted">Reading…</p>}
      {found && (
        <>
          <p class="muted">{found.words}</p>
          {found.changes.slice(0, shown).map((change, index) => (
            <FileChange
              key={change.key}
              change={change}
              isOpen={index < OPEN_AT_FIRST}
              view={view}
              onOpen={onOpen}
            />
          ))}
          {found.changes.length > shown && (
            <button class="more" onClick={() => setShown(shown + SHOWN)}>
              Show {Math.min(SHOWN, found.changes.length - shown)} more of{" "}
              {toCount(found.changes.length - shown)} files
            </button>
          )}
          {found.others.length > 0 && <Others others={found.others} />}
        </>
      )}
    </section>
  );
}

function FileChange(props: {
  readonly change: Change;
  readonly isOpen: boolean;
  readonly view: SessionView;
  readonly onOpen: ((path: string, line: number) => void) | undefined;
}): JSX.Element {
  const { change, view, onOpen } = props;
  const [isOpen, setOpen] = useState(props.isOpen);
  const { added, removed } = countChanges(change.diff);
  const line = Number(/^@@ -\S+ \+(\d+)/m.exec(change.diff)?.[1] ?? 1);
  const { sequence } = change;
  return (
    <div class="change">
      <div class="toolbar">
        <button class="summary" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <code>{toLine(change.path, 160)}</code> <span class="added">+{added}</span>{" "}
          <span class="removed">−{removed}</span>
        </button>
        {onOpen && (
          <button
            onClick={() => onOpen(change.path, line)}
            aria-label={`Open ${toLine(change.path, 80)} at line ${line}`}
          >
            Open at line {line}
          </button>
        )}
        {sequence !== undefined && (
          <button onClick={() => (view.selected.value = sequence)} aria-label={`Select event ${sequence}`}>
            event {toCount(sequence)}
          </button>
        )}
      </div>
      {isOpen && <Diff diff={change.diff} label={change.path} />}
    </div>
  );
}

function Others({ others }: { others: Found["others"] }): JSX.Element {
  return (
    <details class="others">
      <summary>
        {toCount(others.length)} {others.length === 1 ? "file" : "files"} changed without a diff of{" "}
        {others.length === 1 ? "its" : "their"} own
      </summary>
      <ul>
        {others.slice(0, 200).map(({ type, path }) => (
          <li key={path}>
            {type} <code>{toLine(path, 160)}</code>
          </li>
        ))}
      </ul>
    </details>
  );
}

function useChanges(view: SessionView, range: string): { found: Found | undefined; failure: string } {
  const [state, setState] = useState<{ found: Found | undefined; failure: string }>({
    found: undefined,
    failure: "",
  });
  const screen = view.screen.value;
  const at = screen?.at ?? 0;
  const turn = view.turns.value.findLast(({ first }) => first <= at);
  const checkpoint = screen?.moment.checkpoint?.id;
  // The head moves with every delta; a turn's changes are read again after some events only.
  const step = view.at.value === null ? Math.floor(at / 100) : at;
  const version = range === "turn" || range === "all" ? `${turn?.id}:${turn?.last}:${step}` : `${checkpoint}`;
  useEffect(() => {
    const asked = new AbortController();
    read(view, {
      range,
      at,
      first: turn?.first ?? 0,
      turn: turn?.index ?? 0,
      checkpoint,
      signal: asked.signal,
    }).then(
      (found) => asked.signal.aborted || setState({ found, failure: "" }),
      (error: unknown) => asked.signal.aborted || setState({ found: undefined, failure: wordsOf(error) }),
    );
    return () => asked.abort();
  }, [view, range, version]);
  return state;
}

interface Wanted {
  readonly range: string;
  readonly at: number;
  readonly first: number;
  readonly turn: number;
  readonly checkpoint: string | undefined;
  readonly signal: AbortSignal;
}

async function read(view: SessionView, wanted: Wanted): Promise<Found> {
  const { range, at, first, turn, checkpoint, signal } = wanted;
  if (range === "turn") {
    if (first === 0) return { changes: [], others: [], words: "No turn had begun at this moment." };
    const { changes, others } = await readTurnChanges(view, { first, at });
    const none = changes.length + others.length === 0;
    const words = none
      ? `Turn ${turn} changed no files up to this moment.`
      : `Edits of turn ${turn}, as its tools made them.`;
    return { changes, others, words };
  }
  if (range === "all") {
    const { changes, sequence } = await readWholeDiff(view, at);
    const words =
      sequence === 0
        ? "No diff of the workspace was recorded up to this moment. One is recorded at each turn’s end, if the workspace is a git repository and differs from its last commit."
        : `The workspace against its last commit, as recorded at event ${toCount(sequence)}.`;
    return { changes, others: [], words };
  }
  if (checkpoint === undefined || checkpoint === range)
    return {
      changes: [],
      others: [],
      words: "No later checkpoint lies before this moment, so nothing can be compared.",
    };
  const changes = splitDiff(await readDiff(view.id, range, checkpoint, signal));
  const words =
    changes.length === 0
      ? "Both checkpoints have the same files."
      : "From that checkpoint to the newest one of this moment.";
  return { changes, others: [], words };
}
