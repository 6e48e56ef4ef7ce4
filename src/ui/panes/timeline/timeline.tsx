import "../../styles/timeline.css";
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { announce } from "../../core/announce.ts";
import { toClock, toCount, toLine, toSpan } from "../../core/format.ts";
import { useKeys } from "../../core/keys.ts";
import type { SessionView } from "../../core/session-view.ts";
import type { Span } from "../../log/protocol.ts";
import { Lines } from "../../parts/lines.tsx";
import { useSpans } from "../span-store.ts";
import { Board, MIN_RANGE } from "./board.tsx";
import { createScale, endOf, type Interval, nameOf, toGaps, toLanes, toNumbers } from "./lanes.ts";
import { NumbersOf } from "./numbers.tsx";

const LINE = 30;

/** Where the time went: bars for turns, the model, tools, sub-agents and people. */
export function Timeline({ view }: { view: SessionView }): JSX.Element {
  const { spans, failure } = useSpans(view);
  const screen = view.screen.value;
  const now = screen?.atTime ?? 0;
  const [zoom, setZoom] = useState<Interval | undefined>(undefined);
  const [folds, setFolds] = useState(true);
  const whole = useMemo(() => wholeOf(spans, now), [spans, now]);
  const range = zoom ?? whole;
  const lanes = useMemo(() => toLanes(spans, now), [spans, now]);
  const gaps = useMemo(() => toGaps(spans, now), [spans, now]);
  const scale = useMemo(() => createScale(range, folds ? gaps : []), [range.from, range.to, folds, gaps]);
  const numbers = useMemo(() => toNumbers(spans, range, now), [spans, range.from, range.to, now]);
  const inRange = useMemo(
    () => spans.filter((span) => span.start <= range.to && endOf(span, now) >= range.from),
    [spans, range.from, range.to, now],
  );
  const selected = view.selected.value;
  const by = (factor: number): void =>
    setZoom(
      toZoom(
        range,
        whole,
        factor,
        spans.find(({ sequence }) => sequence === selected),
      ),
    );
  const move = (part: number): void => setZoom(toMove(range, whole, part));
  const turn = view.turns.value.findLast(({ first }) => first <= (screen?.at ?? 0));
  const toTurn = (): void => {
    if (turn)
      setZoom({ from: turn.startedAt, to: Math.max(turn.startedAt + MIN_RANGE, turn.endedAt || now) });
  };
  useKeys([
    { keys: "+", label: "zoom in", run: () => by(0.5) },
    { keys: "-", label: "zoom out", run: () => by(2) },
    { keys: "0", label: "zoom to the whole session", run: () => setZoom(undefined) },
    { keys: "[", label: "earlier", run: () => move(-0.5) },
    { keys: "]", label: "later", run: () => move(0.5) },
  ]);
  const select = (span: Span): void => {
    view.selected.value = span.sequence;
    announce(`${wordsOf(span, now)}. Enter shows this moment.`);
  };
  if (failure !== undefined)
    return <p class="empty error">The timeline could not be read: {failure} Open the tab again to retry.</p>;
  if (spans.length === 0)
    return (
      <p class="empty muted">
        {screen?.complete ? "Nothing has run yet. The first message begins a turn." : "Reading the log…"}
      </p>
    );
  return (
    <section class="timeline-pane" aria-label="Timeline">
      <div class="toolbar" role="group" aria-label="Zoom">
        <button onClick={() => by(0.5)}>Zoom in</button>
        <button onClick={() => by(2)} disabled={zoom === undefined}>
          Zoom out
        </button>
        <button onClick={() => move(-0.5)} disabled={zoom === undefined} aria-label="Earlier">
          ◀
        </button>
        <button onClick={() => move(0.5)} disabled={zoom === undefined} aria-label="Later">
          ▶
        </button>
        <button onClick={toTurn} disabled={!turn}>
          {turn ? `Turn ${turn.index}` : "Turn"}
        </button>
        <button onClick={() => setZoom(undefined)} disabled={zoom === undefined}>
          Whole session
        </button>
        {gaps.length > 0 && (
          <label>
            <input
              type="checkbox"
              checked={folds}
              onChange={(event) => setFolds(event.currentTarget.checked)}
            />
            Fold {toCount(gaps.length)} idle {gaps.length === 1 ? "gap" : "gaps"}
          </label>
        )}
      </div>
      <NumbersOf numbers={numbers} range={range} isWhole={zoom === undefined} />
      <Board
        lanes={lanes}
        gaps={gaps}
        range={range}
        scale={scale}
        now={now}
        selected={selected}
        onZoom={setZoom}
        onSelect={select}
        onShow={(span) => view.seek(span.sequence)}
      />
      <h2>
        Bars in this interval <span class="muted">{toCount(inRange.length)}</span>
      </h2>
      <div class="timeline-list">
        <Lines
          count={inRange.length}
          height={LINE}
          label="Bars in this interval"
          render={(index) => {
            const span = inRange[index] as Span;
            return (
              <div
                key={span.index}
                role="listitem"
                class={span.sequence === selected ? "bar-line selected" : "bar-line"}
              >
                <button onClick={() => select(span)} onDblClick={() => view.seek(span.sequence)}>
                  <time>{toClock(span.start)}</time>
                  <span class="bar-kind">{span.kind}</span>
                  <span class="bar-name">{toLine(nameOf(span), 160)}</span>
                  <span class="muted">
                    {span.failed && "failed · "}
                    {span.end === 0 ? "open" : toSpan(span.end - span.start)}
                  </span>
                </button>
              </div>
            );
          }}
        />
      </div>
    </section>
  );
}

function wholeOf(spans: readonly Span[], now: number): Interval {
  const from = spans[0]?.start ?? 0;
  const to = spans.reduce((latest, span) => Math.max(latest, endOf(span, now)), from + 1_000);
  return { from, to };
}

/** Zooms around the chosen bar, or around the middle. */
function toZoom(
  range: Interval,
  whole: Interval,
  factor: number,
  chosen: Span | undefined,
): Interval | undefined {
  const length = Math.max(MIN_RANGE, (range.to - range.from) * factor);
  if (length >= whole.to - whole.from) return undefined;
  const isInside = chosen && chosen.start >= range.from && chosen.start <= range.to;
  const middle = isInside ? chosen.start : (range.from + range.to) / 2;
  const from = Math.max(whole.from, Math.min(middle - length / 2, whole.to - length));
  return { from, to: from + length };
}

function toMove(range: Interval, whole: Interval, part: number): Interval {
  const length = range.to - range.from;
  const from = Math.max(whole.from, Math.min(range.from + length * part, whole.to - length));
  return { from, to: from + length };
}

function wordsOf(span: Span, now: number): string {
  return `${span.kind} ${toLine(nameOf(span), 80)}, ${toClock(span.start)}, ${toSpan(endOf(span, now) - span.start)}`;
}
