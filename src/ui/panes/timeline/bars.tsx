import type { JSX } from "preact";
import { toLine } from "../../core/format.ts";
import type { Span } from "../../log/protocol.ts";
import { endOf, type Interval, nameOf, type Scale } from "./lanes.ts";

export const LANE_HEIGHT = 28;
const BAR_TOP = 4;
const BAR_HEIGHT = 20;
const LETTER = 7;

interface Box {
  readonly left: number;
  right: number;
}

/** The bars of one line. Bars that share pixels are one path, so a million of them are as cheap as ten. */
export function Bars(props: {
  readonly spans: readonly Span[];
  readonly gaps: readonly Interval[];
  readonly range: Interval;
  readonly scale: Scale;
  readonly width: number;
  readonly now: number;
  readonly selected: number | null;
}): JSX.Element {
  const { range, scale, width, now } = props;
  const boxes: Record<"gap" | "wait" | "open" | "failed" | "model" | "people" | "main" | "tool", Box[]> = {
    gap: [],
    wait: [],
    open: [],
    failed: [],
    model: [],
    people: [],
    main: [],
    tool: [],
  };
  const place = (from: number, to: number, least: number): Box => {
    const left = scale.toPart(from) * width;
    return { left, right: Math.max(left + least, scale.toPart(to) * width) };
  };
  for (const gap of props.gaps)
    if (gap.to > range.from && gap.from < range.to) push(boxes.gap, place(gap.from, gap.to, 1));
  const labels: { text: string; left: number; room: number }[] = [];
  let chosen: Box | undefined;
  for (const span of props.spans) {
    const end = endOf(span, now);
    if (end < range.from || span.start > range.to) continue;
    const box = place(span.start, end, 2);
    if (span.sequence === props.selected) chosen = { ...box };
    const room = box.right - box.left;
    if (room > 5 * LETTER) labels.push({ text: nameOf(span), left: box.left, room });
    if (span.kind === "model" && span.firstToken !== 0 && !span.failed) {
      const first = place(span.start, span.firstToken, 1);
      push(boxes.wait, first);
      push(boxes.model, { left: Math.min(first.right, box.right - 1), right: box.right });
    } else push(boxes[toneOf(span)], box);
  }
  return (
    <svg class="bars" width={width} height={LANE_HEIGHT} aria-hidden="true">
      {Object.entries(boxes).map(([name, list]) =>
        list.length > 0 ? <path key={name} class={`bar-${name}`} d={list.map(toPath).join("")} /> : null,
      )}
      {chosen && (
        <rect
          class="bar-chosen"
          x={chosen.left}
          y={BAR_TOP - 2}
          width={Math.max(3, chosen.right - chosen.left)}
          height={BAR_HEIGHT + 4}
        />
      )}
      {labels.map(({ text, left, room }) => (
        <text key={left} x={Math.max(0, left) + 4} y={BAR_TOP + 14}>
          {toLine(text, Math.floor((room - 8 + Math.min(0, left)) / LETTER))}
        </text>
      ))}
    </svg>
  );
}

function toneOf({
  kind,
  failed,
  end,
  firstToken,
}: Span): "wait" | "open" | "failed" | "model" | "people" | "main" | "tool" {
  if (failed) return "failed";
  if (kind === "turn") return "main";
  if (kind === "people") return "people";
  if (kind === "retry") return "wait";
  if (kind === "model") return end === 0 && firstToken === 0 ? "wait" : "model";
  return end === 0 ? "open" : "tool";
}

/** Joins bars that touch on the screen, as long as both are thin. */
function push(list: Box[], box: Box): void {
  const last = list.at(-1);
  if (last && box.left - last.right < 1 && box.right - box.left < 4)
    last.right = Math.max(last.right, box.right);
  else list.push(box);
}

function toPath({ left, right }: Box): string {
  const width = Math.max(1, right - left);
  const gap = width > 4 ? 1 : 0;
  return `M${round(left)} ${BAR_TOP}h${round(width - gap)}v${BAR_HEIGHT}h${-round(width - gap)}z`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
