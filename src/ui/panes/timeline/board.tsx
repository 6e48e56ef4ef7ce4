import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { announce } from "../../core/announce.ts";
import { toClock, toLine, toSpan } from "../../core/format.ts";
import type { Span } from "../../log/protocol.ts";
import { Lines } from "../../parts/lines.tsx";
import { Bars, LANE_HEIGHT } from "./bars.tsx";
import { endOf, type Interval, type Lane, type Scale } from "./lanes.ts";

/** The smallest interval that can be zoomed to, in milliseconds. */
export const MIN_RANGE = 20;

interface BoardProps {
  readonly lanes: readonly Lane[];
  readonly gaps: readonly Interval[];
  readonly range: Interval;
  readonly scale: Scale;
  readonly now: number;
  readonly selected: number | null;
  onZoom(range: Interval): void;
  onSelect(span: Span): void;
  onShow(span: Span): void;
}

/** The lanes over one axis. Dragging zooms, a click selects the bar. */
export function Board(props: BoardProps): JSX.Element {
  const { lanes, range, scale, now } = props;
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(600);
  const [drag, setDrag] = useState<{ from: number; to: number } | undefined>(undefined);
  const [lane, setLane] = useState(0);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setWidth(Math.max(120, element.clientWidth - nameWidth(element))));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  const xOf = (event: PointerEvent): number => {
    const element = box.current as HTMLDivElement;
    const x = event.clientX - element.getBoundingClientRect().left - nameWidth(element);
    return Math.max(0, Math.min(1, x / width));
  };
  const drop = (event: PointerEvent): void => {
    if (!drag) return;
    setDrag(undefined);
    const [left, right] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
    if ((right - left) * width > 5) {
      const from = scale.toTime(left);
      return props.onZoom({ from, to: Math.max(from + MIN_RANGE, scale.toTime(right)) });
    }
    const index = Number(
      (event.target as Element).closest<HTMLElement>("[data-lane]")?.dataset["lane"] ?? -1,
    );
    const span = hit(lanes[index]?.spans ?? [], scale, now, xOf(event), width);
    if (!span) return;
    setLane(index);
    props.onSelect(span);
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const spans = (lanes[lane]?.spans ?? []).filter(
      (span) => span.start <= range.to && endOf(span, now) >= range.from,
    );
    const index = spans.findIndex(({ sequence }) => sequence === props.selected);
    const choose = (next: number): void => {
      const span = spans[Math.max(0, Math.min(next, spans.length - 1))];
      if (span) props.onSelect(span);
    };
    if (event.key === "ArrowRight") choose(index + 1);
    else if (event.key === "ArrowLeft") choose(index < 0 ? spans.length - 1 : index - 1);
    else if (event.key === "Home") choose(0);
    else if (event.key === "End") choose(spans.length - 1);
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      const next = Math.max(0, Math.min(lanes.length - 1, lane + (event.key === "ArrowUp" ? -1 : 1)));
      setLane(next);
      announce(`${lanes[next]?.name ?? ""}, ${lanes[next]?.spans.length ?? 0} bars`);
    } else if (event.key === "Enter") {
      const span = spans[index];
      if (span) props.onShow(span);
    } else return;
    event.preventDefault();
  };
  return (
    <div
      class="board"
      ref={box}
      style={{ height: `${Math.min(lanes.length, 14) * LANE_HEIGHT + 28}px` }}
      onKeyDown={onKey}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        setDrag({ from: xOf(event), to: xOf(event) });
      }}
      onPointerMove={(event) => drag && setDrag({ ...drag, to: xOf(event) })}
      onPointerUp={drop}
      onPointerLeave={() => setDrag(undefined)}
    >
      <Axis range={range} scale={scale} width={width} />
      <Lines
        count={lanes.length}
        height={LANE_HEIGHT}
        focus={lane}
        label="Lanes. Up and down choose a lane, left and right a bar, Enter shows its moment."
        render={(index) => {
          const { id, name, line, spans } = lanes[index] as Lane;
          return (
            <div
              key={`${id}:${line}`}
              role="listitem"
              data-lane={index}
              class={index === lane ? "time-lane current" : "time-lane"}
              aria-label={`${toLine(name, 60)}, ${spans.length} bars`}
            >
              <span class="time-lane-name">{line === 0 ? toLine(name, 40) : ""}</span>
              <Bars {...props} spans={spans} width={width} />
            </div>
          );
        }}
      />
      {drag && (
        <div
          class="board-drag"
          style={{
            left: `calc(var(--lane-name) + ${Math.min(drag.from, drag.to) * width}px)`,
            width: `${Math.abs(drag.to - drag.from) * width}px`,
          }}
        />
      )}
    </div>
  );
}

function Axis({ range, scale, width }: { range: Interval; scale: Scale; width: number }): JSX.Element {
  const count = Math.max(2, Math.floor(width / 110));
  const isShort = range.to - range.from < 20_000;
  return (
    <svg class="time-axis" width={width} height={24} aria-hidden="true">
      {Array.from({ length: count }, (_, index) => {
        const time = scale.toTime(index / count);
        const text = isShort ? `+${toSpan(time - range.from)}` : toClock(time);
        return (
          <text key={index} x={(index / count) * width + 2} y={15}>
            {text}
          </text>
        );
      })}
    </svg>
  );
}

function nameWidth(element: HTMLElement): number {
  return Number.parseFloat(getComputedStyle(element).getPropertyValue("--lane-name")) || 96;
}

/** The bar at a place; of thin bars the nearest. */
function hit(spans: readonly Span[], scale: Scale, now: number, x: number, width: number): Span | undefined {
  let best: Span | undefined;
  let least = 6;
  for (const span of spans) {
    const [left, right] = [scale.toPart(span.start) * width, scale.toPart(endOf(span, now)) * width];
    const away = Math.max(left - x * width, x * width - right, 0);
    if (away < least) [best, least] = [span, away];
    if (away === 0 && best === span) return best;
  }
  return best;
}
