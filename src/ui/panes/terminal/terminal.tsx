import "../../styles/terminal.css";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { say } from "../../core/announce.ts";
import { client, createKey, may, wordsOf } from "../../core/api.ts";
import { toCount, toSpan } from "../../core/format.ts";
import { isFile, type SessionView } from "../../core/session-view.ts";
import type { RowView } from "../../log/protocol.ts";
import type { Span } from "../../log/protocol.ts";
import { Part } from "../../parts/ansi.tsx";
import { Lines } from "../../parts/lines.tsx";
import { describeTool } from "../../transcript/tool-words.ts";
import { useSpans } from "../span-store.ts";
import { type ScreenLine, toScreenLines } from "./screen-lines.ts";

/** Commands that are on the screen at first, and how many more a press of the button adds. */
const PAGE = 50;
const HEIGHT = 24;

/** The output of commands and tools up to the shown moment, and a line to run another command. */
export function Terminal({ view }: { view: SessionView }): JSX.Element {
  const { spans, failure } = useSpans(view);
  const [onlyCommands, setOnlyCommands] = useState(true);
  const [shown, setShown] = useState(PAGE);
  const runs = useMemo(() => spans.filter((span) => isRun(span, onlyCommands)), [spans, onlyCommands]);
  const rows = useRows(view, runs.slice(-shown));
  const lines = useMemo(() => rows.flatMap(linesOf), [rows]);
  const before = useRef({ count: 0, end: 0 });
  const [focus, setFocus] = useState<number | undefined>(undefined);
  useEffect(() => {
    const { count, end } = before.current;
    // Somebody who reads further up stays there.
    if (end >= count) setFocus(lines.length - 1);
    before.current.count = lines.length;
  }, [lines]);
  const selected = view.selected.value;
  useEffect(() => {
    const index = lines.findIndex(({ sequence }) => sequence === selected);
    if (selected !== null && index >= 0) setFocus(index);
  }, [selected]);
  if (failure !== undefined)
    return <p class="empty error">The output could not be read: {failure} Open the tab again to retry.</p>;
  return (
    <section class="terminal-pane" aria-label="Terminal">
      <div class="toolbar">
        <label>
          <input
            type="checkbox"
            checked={!onlyCommands}
            onChange={(event) => setOnlyCommands(!event.currentTarget.checked)}
          />
          Output of all tools
        </label>
        {runs.length > shown && (
          <button onClick={() => setShown(shown + PAGE)}>
            Show {Math.min(PAGE, runs.length - shown)} earlier of {toCount(runs.length - shown)}
          </button>
        )}
      </div>
      {lines.length === 0 ? (
        <p class="empty muted">No command had run at this moment.</p>
      ) : (
        <div class="terminal-screen">
          <Lines
            count={lines.length}
            height={HEIGHT}
            focus={focus}
            label="Output of commands"
            onWindow={(from, count) => {
              before.current.end = from + count;
            }}
            render={(index) => <Line key={lines[index]?.key} line={lines[index] as ScreenLine} view={view} />}
          />
        </div>
      )}
      <CommandLine view={view} />
    </section>
  );
}

function Line({ line, view }: { line: ScreenLine; view: SessionView }): JSX.Element {
  const isChosen = view.selected.value === line.sequence;
  const pieces = line.pieces.map((piece, index) => <Part key={index} piece={piece} />);
  if (line.kind !== "prompt")
    return (
      <div role="listitem" class={`term-line term-${line.kind}`}>
        {pieces}
      </div>
    );
  return (
    <div role="listitem" class={isChosen ? "term-line term-prompt selected" : "term-line term-prompt"}>
      <button onClick={() => (view.selected.value = line.sequence)}>
        <span aria-hidden="true">$ </span>
        {pieces}
      </button>
    </div>
  );
}

/** Shown only at the head, and where the login permits it. The server refuses a second command. */
function CommandLine({ view }: { view: SessionView }): JSX.Element | null {
  const [text, setText] = useState("");
  const [isSending, setSending] = useState(false);
  const past = useRef<{ list: string[]; at: number }>({ list: [], at: 0 });
  const moment = view.moment.value;
  if (isFile() || !may("control") || !moment) return null;
  if (view.at.value !== null)
    return <p class="muted">This is the past. Esc goes back to live, where commands can run.</p>;
  if (moment.ended !== null || moment.deleted)
    return <p class="muted">The session has ended, so no command can run in it.</p>;
  const run = async (): Promise<void> => {
    setSending(true);
    try {
      await client.runCommand(view.id, { command: text }, { idempotencyKey: createKey() });
      past.current.list.push(text);
      past.current.at = past.current.list.length;
      setText("");
    } catch (error) {
      say(`The command did not start. ${wordsOf(error)}`, "bad");
    } finally {
      setSending(false);
    }
  };
  const stop = (): void => {
    client.interrupt(view.id).catch((error: unknown) => say(wordsOf(error), "bad"));
  };
  const recall = (by: number): void => {
    const { list, at } = past.current;
    past.current.at = Math.max(0, Math.min(list.length, at + by));
    setText(list[past.current.at] ?? "");
  };
  return (
    <form
      class="command-line"
      onSubmit={(event) => {
        event.preventDefault();
        if (text.trim() !== "" && !isSending) void run();
      }}
    >
      <span aria-hidden="true">$</span>
      <input
        class="mono"
        aria-label="Command to run in the sandbox"
        placeholder="a command in the sandbox"
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
          event.preventDefault();
          recall(event.key === "ArrowUp" ? -1 : 1);
        }}
      />
      {moment.command !== null && (
        <button type="button" onClick={stop}>
          Stop
        </button>
      )}
      <button class="primary" disabled={text.trim() === "" || isSending}>
        Run
      </button>
    </form>
  );
}

function isRun(span: Span, onlyCommands: boolean): boolean {
  if (span.kind === "command") return true;
  if (span.kind !== "tool") return false;
  return !onlyCommands || describeTool(span.label, span.input).sign === "$";
}

const painted = new WeakMap<RowView, ScreenLine[]>();

function linesOf(row: RowView): ScreenLine[] {
  const known = painted.get(row);
  if (known) return known;
  const exit = row.exit === undefined ? "" : `exit ${row.exit} · `;
  const state = row.open
    ? "runs"
    : `${row.failed && row.exit === undefined ? "failed · " : exit}${toSpan(row.endTime - row.time)}`;
  const lines = toScreenLines(row, `  ${state}`);
  painted.set(row, lines);
  return lines;
}

/**
 * The rows of some spans as they were at the shown moment. One read runs at a time; if the spans change meanwhile, another
 * follows. A row that has ended is read once.
 */
function useRows(view: SessionView, runs: readonly Span[]): readonly RowView[] {
  const [rows, setRows] = useState<readonly RowView[]>([]);
  const kept = useRef(new Map<number, RowView>());
  const at = view.screen.value?.at ?? 0;
  const hasOpen = runs.some(({ end }) => end === 0);
  const key = `${runs[0]?.sequence}:${runs.length}:${runs.filter(({ end }) => end !== 0).length}:${hasOpen ? at : 0}`;
  const busy = useRef(false);
  const [round, setRound] = useState(0);
  const latest = useRef(key);
  latest.current = key;
  useEffect(() => {
    if (busy.current) return;
    busy.current = true;
    const wanted = runs.filter(({ sequence, end }) => end === 0 || !kept.current.has(sequence));
    void view
      .call("rowsAt", { at, sequences: wanted.map(({ sequence }) => sequence) })
      .then((found) => {
        const fresh = new Map(found.map((row) => [row.sequence, row]));
        for (const row of found) if (!row.open) kept.current.set(row.sequence, row);
        setRows(
          runs.flatMap(
            ({ sequence, end }) =>
              fresh.get(sequence) ?? (end === 0 ? [] : (kept.current.get(sequence) ?? [])),
          ),
        );
      })
      .catch((error: unknown) => say(wordsOf(error), "bad"))
      .finally(() => {
        busy.current = false;
        if (latest.current !== key) setRound(round + 1);
      });
  }, [key, round]);
  return rows;
}
