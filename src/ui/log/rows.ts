import type { Item, SluiceEvent } from "../../contract/index.ts";
import type { RowKind } from "./protocol.ts";

/** One line of the transcript, told by one or several events. */
export interface Row {
  readonly index: number;
  /** Of its first event. */
  readonly sequence: number;
  last: number;
  kind: RowKind;
  readonly type: string;
  readonly id: string;
  readonly depth: number;
  /** The row of the sub-agent's call, or -1. */
  readonly parent: number;
  /** Shown only where every event has a row. */
  quiet: boolean;
  /** The sequences of its events, without deltas and output. */
  readonly parts: number[];
  /** The text so far of an item that is still open. */
  text: string | undefined;
  /** The index of the row's open text in its deltas: which of its items grows. */
  growing: string | undefined;
  /** How many characters of output a command has written. */
  written: number;
  /** Whether its deltas are the beginning of its final text. */
  isPrefix: boolean;
  version: number;
  nested: number;
  open: boolean;
}

const QUIET = new Set([
  "session.started",
  "session.updated",
  "input.accepted",
  "input.replaced",
  "input.withdrawn",
  "input.reordered",
  "turn.waiting",
  "turn.resumed",
  "turn.ended",
  "model.started",
  "model.first",
  "model.ended",
  "file.changed",
  "sandbox.boot",
  "sandbox.ready",
  "sandbox.connected",
  "sandbox.moving",
  "sandbox.killed",
  "process.started",
  "process.ended",
  "process.output",
  "custom",
]);

const KINDS: Readonly<Record<string, RowKind>> = {
  "turn.started": "turn",
  "plan.updated": "plan",
  "file.changed": "files",
  "workspace.diffed": "diff",
  "command.started": "command",
  "checkpoint.created": "checkpoint",
  "checkpoint.restored": "checkpoint",
  "permission.requested": "ask",
  "question.requested": "ask",
  "tool.requested": "ask",
  "sandbox.error": "error",
  error: "error",
};

/** The rows of a log, in the order of their first events. */
export class Rows {
  readonly all: Row[] = [];
  /** The indexes of rows that are not quiet. */
  readonly loud: number[] = [];
  /** Rows that later events may continue, by a key of the thing. */
  readonly #byKey = new Map<string, Row>();
  #turn = "";

  /** Adds an event to its row, and returns the row with the length of the text after it. */
  add(event: SluiceEvent): { row: Row; textEnd: number } {
    const row = this.#find(event) ?? this.#create(event);
    row.last = event.sequence;
    row.version += 1;
    if (event.type === "item.delta") return { row, textEnd: grow(row, event.data) };
    if (event.type === "command.output") {
      row.written += event.data.text.length;
      return { row, textEnd: row.written };
    }
    if (event.type !== "process.output") row.parts.push(event.sequence);
    this.#settle(row, event);
    return { row, textEnd: 0 };
  }

  #find(event: SluiceEvent): Row | undefined {
    const key = toKey(event, this.#turn);
    return key === undefined ? undefined : this.#byKey.get(key);
  }

  #create(event: SluiceEvent): Row {
    const item = "item" in event.data ? (event.data as { item: Item }).item : undefined;
    const parent = this.#byKey.get(`item:${event.parent_id ?? ""}`);
    // The end of a log may begin within an item: its text is a message until the item itself is told.
    const grown = event.type === "item.delta" ? event.data.item_id : undefined;
    const kind = item ? kindOfItem(item) : grown ? "message" : (KINDS[event.type] ?? "note");
    const row: Row = {
      index: this.all.length,
      sequence: event.sequence,
      last: event.sequence,
      kind,
      type: event.type,
      id: toId(event),
      depth: parent ? Math.min(parent.depth + 1, 6) : 0,
      parent: parent?.index ?? -1,
      quiet: item ? isQuietItem(item) : QUIET.has(event.type) && !isFailure(event),
      parts: [],
      text: item || grown ? "" : undefined,
      growing: item?.item_id ?? grown,
      written: 0,
      isPrefix: true,
      version: 0,
      nested: 0,
      open:
        kind !== "note" && kind !== "error" && kind !== "diff" && kind !== "checkpoint" && kind !== "files",
    };
    this.all.push(row);
    if (!row.quiet) {
      this.loud.push(row.index);
      for (let up = parent; up; up = this.all[up.parent]) {
        up.nested += 1;
        up.version += 1;
      }
    }
    if (event.type === "turn.started") this.#turn = event.data.turn_id;
    const key = toKey(event, this.#turn);
    if (key !== undefined) this.#byKey.set(key, row);
    return row;
  }

  /** What an event that is not a delta changes in the row. */
  #settle(row: Row, event: SluiceEvent): void {
    switch (event.type) {
      case "item.started": {
        const { item } = event.data;
        // A result belongs to the row of its call, whose text is the call's arguments until then.
        this.#byKey.set(`item:${item.item_id}`, row);
        row.growing = item.item_id;
        row.text = "";
        row.open = true;
        return;
      }
      case "item.completed": {
        const { item } = event.data;
        if (row.type === "item.delta") row.kind = kindOfItem(item);
        if (row.kind === "tool" && item.kind === "tool_call") return;
        row.isPrefix = finalText(item).startsWith(row.text ?? "");
        row.text = undefined;
        row.open = false;
        return;
      }
      case "turn.ended":
      case "permission.resolved":
      case "question.resolved":
      case "tool.resolved":
      case "command.ended":
      case "model.ended":
        row.open = false;
        return;
      default:
    }
  }
}

function grow(row: Row, { item_id: id, delta }: { item_id: string; delta: string }): number {
  if (row.growing !== id || row.text === undefined) return 0;
  row.text += delta;
  return row.text.length;
}

/** The thing that an event tells about, if others tell about it too. */
function toKey(event: SluiceEvent, turn: string): string | undefined {
  switch (event.type) {
    case "item.started":
    case "item.completed": {
      const { item } = event.data;
      if (item.kind === "tool_result" && item.parent_id !== undefined) return `item:${item.parent_id}`;
      return `item:${item.item_id}`;
    }
    case "item.delta":
      return `item:${event.data.item_id}`;
    case "turn.started":
      return `turn:${event.data.turn_id}`;
    case "permission.requested":
    case "permission.resolved":
      return `ask:${event.data.permission_id}`;
    case "question.requested":
    case "question.resolved":
      return `ask:${event.data.question_id}`;
    case "tool.requested":
    case "tool.resolved":
      return `ask:${event.data.request_id}`;
    case "model.started":
    case "model.first":
    case "model.ended":
      return `model:${event.data.request_id}`;
    case "command.started":
    case "command.output":
    case "command.ended":
      return `command:${event.data.command_id}`;
    case "process.output":
      return `output:${event.data.process}:${event.data.stream}:${turn}`;
    case "plan.updated":
      return `plan:${turn}:${event.parent_id ?? ""}`;
    case "file.changed":
      return `files:${turn}:${event.turn_id ?? ""}`;
    default:
      return undefined;
  }
}

function toId(event: SluiceEvent): string {
  if ("item" in event.data) return (event.data as { item: Item }).item.item_id;
  if (event.type === "turn.started") return event.data.turn_id;
  if (event.type === "permission.requested") return event.data.permission_id;
  if (event.type === "question.requested") return event.data.question_id;
  if (event.type === "tool.requested") return event.data.request_id;
  return event.event_id;
}

function kindOfItem(item: Item): RowKind {
  if (item.kind === "tool_call" || item.kind === "tool_result") return "tool";
  if (item.kind === "message") return item.content[0]?.type === "reasoning" ? "thought" : "message";
  return item.kind === "unknown" ? "note" : "status";
}

/** A plan has a row of its own, so its status item is only for clients that do not know plans. */
function isQuietItem({ kind, content }: Item): boolean {
  const [first] = content;
  return kind === "status" && first?.type === "status" && first.label === "plan";
}

function isFailure({ type, data }: SluiceEvent): boolean {
  if (type === "turn.ended") return (data as { status: string }).status !== "completed";
  if (type !== "process.ended") return false;
  const { reason, signal } = data as { reason: string; signal?: string };
  return reason === "lost" || signal !== undefined;
}

/** The text that the deltas of an item build up. */
export function finalText(item: Item): string {
  return item.content
    .map((part) => {
      if (part.type === "text" || part.type === "reasoning") return part.text;
      return part.type === "tool_result" ? part.output : "";
    })
    .join("");
}
