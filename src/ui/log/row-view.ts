import type { ContentPart, EventData, Item, SluiceEvent } from "../../contract/index.ts";
import type { Columns } from "./columns.ts";
import { toText } from "./moment.ts";
import { type AskView, MAX_REQUEST, type RowView, type TurnSummary } from "./protocol.ts";
import { finalText, type Row } from "./rows.ts";
import type { ShortEvent, Texts } from "./texts.ts";

/** The longest text of a row on the screen; the whole text is read on request. */
export const MAX_TEXT = 60_000;
const MAX_DATA = 20_000;
/** Pieces of output that are read for one row. */
const MAX_OUTPUTS = 5_000;

export interface RowSource {
  readonly columns: Columns;
  readonly texts: Texts;
  turnAt(sequence: number): TurnSummary | undefined;
}

/** Thrown where the text of an event has to be read first. */
export class MissingText {
  readonly sequence: number;
  constructor(sequence: number) {
    this.sequence = sequence;
  }
}

/** A row as it was at a moment: only its events up to then count. */
export function viewRow(source: RowSource, row: Row, at: number, limit = MAX_TEXT): RowView {
  const parts = row.parts.filter((sequence) => sequence <= at);
  const events = parts.map((sequence) => readEvent(source, sequence));
  const last = row.last <= at ? row.last : lastOf(source, row, at);
  const isOpen = row.open || last < row.last;
  const shared = {
    sequence: row.sequence,
    last,
    kind: row.kind,
    type: row.type,
    time: source.columns.timeOf(row.sequence),
    endTime: source.columns.timeOf(last),
    depth: row.depth,
    id: row.id,
    open: isOpen,
    version: row.last <= at ? row.version : -last,
  };
  const first = events[0];
  if (!first)
    return row.text === undefined
      ? { ...shared, data: "" }
      : { ...shared, ...cut(grownText(source, row, at), limit) };
  switch (row.kind) {
    case "turn": {
      const turn = source.turnAt(row.sequence);
      return turn ? { ...shared, turn: turn.last > at || turn.last === 0 ? asRunning(turn) : turn } : shared;
    }
    case "message":
    case "thought":
    case "status":
      return { ...shared, ...viewItem(source, row, events, at, limit) };
    case "tool":
      return { ...shared, ...viewTool(source, row, events, at, limit) };
    case "ask":
      return { ...shared, ask: viewAsk(events), open: events.length < 2 };
    case "plan":
      return { ...shared, plan: ((events.at(-1) ?? first).data as EventData<"plan.updated">).entries };
    case "diff": {
      const { path, diff } = first.data as EventData<"workspace.diffed">;
      return { ...shared, name: path, diffs: [{ path, diff }] };
    }
    case "command":
      return { ...shared, ...viewCommand(source, row, events, at, limit) };
    case "files":
      return {
        ...shared,
        entries: events.slice(-200).map(({ data }) => data as EventData<"file.changed">),
      };
    default:
      return { ...shared, ...viewNote(events) };
  }
}

function readEvent({ texts }: RowSource, sequence: number): SluiceEvent {
  const text = texts.get(sequence);
  if (text === undefined) throw new MissingText(sequence);
  return JSON.parse(text) as SluiceEvent;
}

/** The last event of the row up to a moment. */
function lastOf({ columns }: RowSource, row: Row, at: number): number {
  for (let sequence = at; sequence > row.sequence; sequence--)
    if (columns.rowOf(sequence) === row.index) return sequence;
  return row.sequence;
}

function asRunning(turn: TurnSummary): TurnSummary {
  return { ...turn, last: 0, endedAt: 0, status: "running", stopReason: "", usage: {} };
}

type Shown = Partial<RowView>;

function itemsOf(events: readonly SluiceEvent[]): Item[] {
  return events.flatMap((event) => ("item" in event.data ? [(event.data as { item: Item }).item] : []));
}

function viewItem(
  source: RowSource,
  row: Row,
  events: readonly SluiceEvent[],
  at: number,
  limit: number,
): Shown {
  const items = itemsOf(events);
  const item = items.at(-1);
  if (!item) return {};
  const isDone = events.at(-1)?.type === "item.completed";
  const text = isDone ? toText(item.content) : toText(item.content) + grownText(source, row, at);
  const images = item.content.flatMap((part) => (part.type === "image" ? [part.path] : []));
  return {
    ...cut(text, limit, isDone ? lostOf(events.at(-1)) : 0),
    open: !isDone,
    ...(item.role !== undefined && { role: item.role }),
    ...(images.length > 0 && { images }),
    ...toDiffs(item.content),
    failed: item.status === "failed",
  };
}

function viewTool(
  source: RowSource,
  row: Row,
  events: readonly SluiceEvent[],
  at: number,
  limit: number,
): Shown {
  const items = itemsOf(events);
  const call = items.findLast(({ kind }) => kind === "tool_call");
  const result = items.findLast(({ kind }) => kind === "tool_result");
  const part = call?.content.find((content) => content.type === "tool_call");
  const isDone = result !== undefined && events.at(-1)?.type === "item.completed";
  const output = isDone ? finalText(result) || toText(result.content) : grownText(source, row, at);
  const isResult = result !== undefined;
  const content = [...(call?.content ?? []), ...(result?.content ?? [])];
  const images = content.flatMap((one) => (one.type === "image" ? [one.path] : []));
  const shown = cut(isResult ? output : "", limit, isDone ? lostOf(events.at(-1)) : 0);
  return {
    name: part?.name ?? "tool",
    input: (part?.arguments || (isResult ? "" : output)).slice(0, MAX_DATA),
    ...(shown.text !== undefined && { output: shown.text }),
    ...(shown.cut !== undefined && { cut: shown.cut }),
    ...(images.length > 0 && { images }),
    ...toDiffs(content),
    open: !isDone,
    failed: result?.status === "failed" || call?.status === "failed",
  };
}

function toDiffs(content: readonly ContentPart[]): Pick<Shown, "diffs"> {
  const diffs = content.flatMap((part) =>
    part.type === "file_ref" && part.diff !== undefined ? [{ path: part.path, diff: part.diff }] : [],
  );
  return diffs.length > 0 ? { diffs } : {};
}

/** The text of the row's open item at a moment: a part of its later text, or its deltas one by one. */
function grownText(source: RowSource, row: Row, at: number): string {
  const { columns } = source;
  let last = Math.min(at, row.last);
  while (last > row.sequence && !(columns.rowOf(last) === row.index && columns.typeOf(last) === "item.delta"))
    last -= 1;
  if (last < row.sequence || columns.typeOf(last) !== "item.delta") return "";
  const end = columns.textEnd(last);
  if (row.text !== undefined && end <= row.text.length) return row.text.slice(0, end);
  const done = row.parts.find((sequence) => sequence > last && columns.typeOf(sequence) === "item.completed");
  if (done !== undefined && row.isPrefix && end > 0)
    return finalText((readEvent(source, done).data as { item: Item }).item).slice(0, end);
  let text = "";
  for (let sequence = row.sequence; sequence <= last; sequence++) {
    if (columns.rowOf(sequence) !== row.index) continue;
    const type = columns.typeOf(sequence);
    if (type === "item.started") text = "";
    if (type === "item.delta") text += (readEvent(source, sequence).data as EventData<"item.delta">).delta;
  }
  return text;
}

function viewAsk(events: readonly SluiceEvent[]): AskView {
  const [asked, answered] = events;
  const answer = answered && answerOf(answered);
  if (asked?.type === "permission.requested") {
    const { permission_id: id, action: prompt, metadata } = asked.data;
    return {
      kind: "permission",
      id,
      prompt,
      ...toInput(metadata),
      ...answer,
      answered: answer !== undefined,
    };
  }
  if (asked?.type === "question.requested") {
    const { question_id: id, prompt, options } = asked.data;
    return { kind: "question", id, prompt, options, ...answer, answered: answer !== undefined };
  }
  const { request_id: id, name, input } = (asked as SluiceEvent).data as EventData<"tool.requested">;
  return { kind: "tool", id, prompt: name, ...toInput(input), ...answer, answered: answer !== undefined };
}

function toInput(input: unknown): { input?: string } {
  return input === undefined ? {} : { input: JSON.stringify(input, null, 2).slice(0, MAX_REQUEST) };
}

function answerOf(event: SluiceEvent): { answer: string } {
  if (event.type === "question.resolved") return { answer: event.data.response ?? event.data.status };
  if (event.type === "tool.resolved")
    return { answer: `${event.data.status}: ${toText(event.data.content)}` };
  if (event.type !== "permission.resolved") return { answer: "" };
  const { reply, by, message } = (event.data.metadata ?? {}) as Record<string, unknown>;
  const how =
    event.data.status === "approved" ? (reply === "always" ? "allowed always" : "allowed") : "rejected";
  const words = typeof message === "string" && message !== "" ? `: ${message}` : "";
  return { answer: `${how}${words}${typeof by === "string" ? ` (by ${by})` : ""}` };
}

function viewCommand(
  source: RowSource,
  row: Row,
  events: readonly SluiceEvent[],
  at: number,
  limit: number,
): Shown {
  const { columns } = source;
  const { command } = (events[0] as SluiceEvent).data as EventData<"command.started">;
  const ended = events.find((event) => event.type === "command.ended");
  // The end of the output is shown, so it is read from its end and no further than is needed.
  const output: string[] = [];
  let [total, length, read] = [0, 0, 0];
  for (let sequence = Math.min(at, row.last); sequence > row.sequence; sequence--) {
    if (columns.rowOf(sequence) !== row.index || columns.typeOf(sequence) !== "command.output") continue;
    total = Math.max(total, columns.textEnd(sequence));
    if (length >= limit || read >= MAX_OUTPUTS) break;
    const { text } = readEvent(source, sequence).data as EventData<"command.output">;
    output.push(text);
    length += text.length;
    read += 1;
  }
  const { exit_code: exit, status } = (ended?.data ?? {}) as Partial<EventData<"command.ended">>;
  const shown = output.toReversed().join("").slice(-limit);
  return {
    name: command,
    output: shown,
    ...(shown.length < total && { cut: total - shown.length }),
    ...(exit !== undefined && { exit }),
    failed: ended !== undefined && (status !== "completed" || (exit ?? 0) !== 0),
    open: ended === undefined,
  };
}

function viewNote(events: readonly SluiceEvent[]): Shown {
  const last = events.at(-1) as SluiceEvent;
  return { name: last.type, data: JSON.stringify(last.data, null, 2).slice(0, MAX_DATA) };
}

/** The characters that a very long event has on the server alone. */
function lostOf(event: ShortEvent | undefined): number {
  return event?.lost ?? 0;
}

function cut(text: string, limit: number, lost = 0): { text?: string; cut?: number } {
  if (text.length <= limit && lost === 0) return { text };
  return { text: text.slice(0, limit), cut: Math.max(0, text.length - limit) + lost };
}
