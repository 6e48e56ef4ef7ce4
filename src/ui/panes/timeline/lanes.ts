import type { Usage } from "../../../contract/index.ts";
import { addUsage } from "../../log/moment.ts";
import type { Span } from "../../log/protocol.ts";
import { describeTool } from "../../transcript/tool-words.ts";

/** Spans that overlap have lines of their own, up to this many for a lane. */
const MAX_LINES = 6;
/** A pause of at least this length is an idle gap. */
const MIN_GAP = 10_000;

export interface Lane {
  readonly id: string;
  readonly name: string;
  /** Of the lane's lines; only the first one shows the name. */
  readonly line: number;
  readonly spans: readonly Span[];
}

export interface Interval {
  readonly from: number;
  readonly to: number;
}

/** The lanes from top to bottom: main, model, tools, people, and each sub-agent by its name. */
export function toLanes(spans: readonly Span[], now: number): Lane[] {
  const groups = new Map<string, { name: string; spans: Span[] }>([
    ["main", { name: "main", spans: [] }],
    ["model", { name: "model", spans: [] }],
    ["tools", { name: "tools", spans: [] }],
    ["people", { name: "people", spans: [] }],
  ]);
  const agents = new Map<string, string>();
  for (const span of spans) {
    if (span.kind !== "agent") continue;
    const name = nameOf(span).replace(/^sub-agent (?=.)/, "");
    agents.set(span.id, `agent:${name}`);
    if (!groups.has(`agent:${name}`)) groups.set(`agent:${name}`, { name, spans: [] });
  }
  for (const span of spans) groups.get(laneOf(span, agents))?.spans.push(span);
  return [...groups].flatMap(([id, { name, spans: own }]) =>
    toLines(own, now).map((line, index) => ({ id, name, line: index, spans: line })),
  );
}

function laneOf(span: Span, agents: ReadonlyMap<string, string>): string {
  if (span.kind === "turn") return "main";
  if (span.kind === "people") return "people";
  if (span.kind === "model" || span.kind === "retry") return "model";
  return agents.get(span.kind === "agent" ? span.id : span.owner) ?? "tools";
}

/** The text of a bar. */
export function nameOf(span: Span): string {
  if (span.kind === "command") return `$ ${span.label}`;
  if (span.kind !== "tool" && span.kind !== "agent") return span.label;
  return describeTool(span.label, span.input).title;
}

/** Puts spans that overlap one below the other. */
function toLines(spans: readonly Span[], now: number): Span[][] {
  const lines: { spans: Span[]; end: number }[] = [{ spans: [], end: 0 }];
  for (const span of spans) {
    let line = lines.find(({ end }) => end <= span.start);
    if (!line && lines.length < MAX_LINES) lines.push((line = { spans: [], end: 0 }));
    line ??= lines.at(-1) as { spans: Span[]; end: number };
    line.spans.push(span);
    line.end = Math.max(line.end, endOf(span, now));
  }
  return lines.map((line) => line.spans);
}

export function endOf({ start, end }: Span, now: number): number {
  return Math.max(start, end === 0 ? now : end);
}

/** The pauses in which neither a turn nor a command ran. */
export function toGaps(spans: readonly Span[], now: number): Interval[] {
  const gaps: Interval[] = [];
  let last: number | undefined;
  for (const span of spans) {
    if (span.kind !== "turn" && span.kind !== "command") continue;
    if (last !== undefined && span.start - last >= MIN_GAP) gaps.push({ from: last, to: span.start });
    last = Math.max(last ?? 0, endOf(span, now));
  }
  return gaps;
}

export interface Scale {
  /** From 0 at the left edge to 1 at the right one. */
  toPart(time: number): number;
  toTime(part: number): number;
}

/** The way from times to places. A folded gap has a fixed small width. */
export function createScale({ from, to }: Interval, folded: readonly Interval[]): Scale {
  const inside = folded.filter((gap) => gap.from > from && gap.to < to);
  const busy = Math.max(1, to - from - inside.reduce((sum, gap) => sum + gap.to - gap.from, 0));
  const width = inside.length === 0 ? 0 : Math.min(0.03, 0.4 / inside.length);
  const rest = 1 - width * inside.length;
  const knots: { time: number; part: number }[] = [{ time: from, part: 0 }];
  for (const gap of inside) {
    const before = knots.at(-1) as { time: number; part: number };
    const part = before.part + ((gap.from - before.time) / busy) * rest;
    knots.push({ time: gap.from, part }, { time: gap.to, part: part + width });
  }
  knots.push({ time: Math.max(to, from + 1), part: 1 });
  return {
    toPart: (time) => interpolate(knots, time, "time", "part"),
    toTime: (part) => interpolate(knots, part, "part", "time"),
  };
}

type Knot = { readonly time: number; readonly part: number };

function interpolate(knots: readonly Knot[], value: number, by: keyof Knot, wanted: keyof Knot): number {
  let [low, high] = [0, knots.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((knots[middle] as Knot)[by] <= value) low = middle;
    else high = middle;
  }
  const [a, b] = [knots[low] as Knot, knots[high] as Knot];
  const part = b[by] === a[by] ? 0 : (value - a[by]) / (b[by] - a[by]);
  return a[wanted] + (b[wanted] - a[wanted]) * Math.max(0, Math.min(1, part));
}

export interface Numbers {
  /** The time in which a turn or a command ran. */
  readonly busy: number;
  /** Parts of the busy time; together 1. */
  readonly people: number;
  readonly tools: number;
  readonly model: number;
  readonly rest: number;
  readonly usage: Usage;
  readonly requests: number;
  /** The median time to a first token; undefined where none was seen. */
  readonly firstToken: number | undefined;
}

const ORDER = ["people", "tools", "model", "rest"] as const;
type Share = (typeof ORDER)[number];

const SHARES: Readonly<Record<Span["kind"], Share>> = {
  people: "people",
  tool: "tools",
  agent: "tools",
  command: "tools",
  model: "model",
  retry: "rest",
  turn: "rest",
};

/** The numbers of an interval. Each instant counts once: people before tools before the model. */
export function toNumbers(spans: readonly Span[], { from, to }: Interval, now: number): Numbers {
  const edges: { time: number; share: Share; by: 1 | -1 }[] = [];
  const usage: Usage = {};
  const waits: number[] = [];
  let requests = 0;
  // The call of a sub-agent covers what the sub-agent does itself.
  const owners = new Set(spans.map(({ owner }) => owner));
  for (const span of spans) {
    const [start, end] = [Math.max(from, span.start), Math.min(to, endOf(span, now))];
    if (end < start) continue;
    if (span.kind === "model" && span.end !== 0 && span.end >= from && span.end <= to) {
      requests += 1;
      if (span.usage) addUsage(usage, span.usage);
      if (span.firstToken !== 0) waits.push(span.firstToken - span.start);
    }
    const share = span.kind === "agent" && owners.has(span.id) ? "rest" : SHARES[span.kind];
    edges.push({ time: start, share, by: 1 }, { time: end, share, by: -1 });
  }
  edges.sort((a, b) => a.time - b.time);
  const sums = { people: 0, tools: 0, model: 0, rest: 0 };
  const open = { people: 0, tools: 0, model: 0, rest: 0 };
  let last = from;
  for (const { time, share, by } of edges) {
    const owner = ORDER.find((name) => open[name] > 0);
    if (owner) sums[owner] += time - last;
    last = time;
    open[share] += by;
  }
  const busy = sums.people + sums.tools + sums.model + sums.rest;
  const part = (name: Share): number => (busy === 0 ? 0 : sums[name] / busy);
  return {
    busy,
    people: part("people"),
    tools: part("tools"),
    model: part("model"),
    rest: part("rest"),
    usage,
    requests,
    firstToken: median(waits),
  };
}

export function median(values: readonly number[]): number | undefined {
  return values.toSorted((a, b) => a - b)[values.length >> 1];
}
