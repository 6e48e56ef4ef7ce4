import type { Item, SluiceEvent } from "../../contract/index.ts";
import type { LogIndex } from "./log-index.ts";
import type { Span, SpanChanges } from "./protocol.ts";
import { PAGE } from "./texts.ts";

const MAX_INPUT = 2_000;
let logs = 0;

/** Folds events into spans. */
export class SpanFold {
  readonly log = ++logs;
  readonly all: Span[] = [];
  version = 0;
  /** The last event that was folded. */
  head: number;
  readonly #open = new Map<string, Span>();
  /** Model requests that have no first token yet, by the sub-agent's item ("" for the main agent). */
  readonly #silent = new Map<string, Span>();
  readonly #items = new Map<string, Span>();
  #turns = 0;
  #turn = 0;

  constructor(base: number) {
    this.head = base;
  }

  add(event: SluiceEvent): void {
    this.head = event.sequence;
    const parent = event.parent_id === undefined ? undefined : this.#items.get(event.parent_id);
    if (parent && parent.kind === "tool") this.#change(parent, { kind: "agent" });
    switch (event.type) {
      case "turn.started":
        this.#turn = ++this.#turns;
        this.#begin(event, "turn", "turn", `turn ${this.#turn}`);
        return;
      case "turn.ended":
        return this.#endTurn(event, event.data.status === "failed");
      case "turn.retrying":
        this.#begin(event, "retry", "retry", `retry ${event.data.attempt}: ${event.data.error.message}`);
        return;
      case "turn.resumed":
        return this.#end("retry", event);
      case "model.started": {
        const { request_id: id, model } = event.data;
        const span = this.#begin(event, "model", `model:${id}`, model ?? "model");
        if (model !== undefined) span.model = model;
        this.#silent.set(span.owner, span);
        return;
      }
      case "model.ended": {
        const { request_id: id, model, usage, usage_source: source, error } = event.data;
        const key = `model:${id}`;
        const span = this.#open.get(key) ?? this.#begin(event, "model", key, model ?? "model");
        if (model !== undefined) span.model = model;
        if (usage) span.usage = usage;
        if (source === "estimated") span.estimated = true;
        if (this.#silent.get(span.owner) === span) this.#silent.delete(span.owner);
        return this.#end(key, event, error !== undefined);
      }
      case "item.started":
      case "item.completed":
        return this.#item(event, event.data.item);
      case "permission.requested":
        this.#begin(event, "people", `ask:${event.data.permission_id}`, event.data.action);
        return;
      case "question.requested":
        this.#begin(event, "people", `ask:${event.data.question_id}`, event.data.prompt);
        return;
      case "tool.requested":
        this.#begin(event, "people", `ask:${event.data.request_id}`, event.data.name);
        return;
      case "permission.resolved":
        return this.#end(`ask:${event.data.permission_id}`, event);
      case "question.resolved":
        return this.#end(`ask:${event.data.question_id}`, event);
      case "tool.resolved":
        return this.#end(`ask:${event.data.request_id}`, event);
      case "command.started":
        this.#begin(event, "command", `command:${event.data.command_id}`, event.data.command);
        return;
      case "command.ended": {
        const { command_id: id, status, exit_code: exit } = event.data;
        return this.#end(`command:${id}`, event, status !== "completed" || (exit ?? 0) !== 0);
      }
      default:
    }
  }

  #item(event: SluiceEvent, item: Item): void {
    const owner = event.parent_id ?? "";
    const silent = this.#silent.get(owner);
    if (silent && item.role !== "user" && item.kind !== "tool_result") {
      this.#silent.delete(owner);
      this.#change(silent, { firstToken: Date.parse(event.time), firstTokenAt: event.sequence });
    }
    if (item.kind === "tool_call") {
      const call = item.content.find((part) => part.type === "tool_call");
      const span =
        this.#items.get(item.item_id) ??
        this.#begin(event, "tool", `item:${item.item_id}`, call?.name ?? "tool", item.item_id);
      this.#items.set(item.item_id, span);
      this.#change(span, {
        ...(call && { label: call.name }),
        ...(call?.arguments && { input: call.arguments.slice(0, MAX_INPUT) }),
        ...(item.status === "failed" && { failed: true }),
      });
    }
    if (item.kind === "tool_result" && event.type === "item.completed")
      this.#end(`item:${item.parent_id ?? ""}`, event, item.status === "failed");
  }

  /** A turn's end ends all that it left open. */
  #endTurn(event: SluiceEvent, failed: boolean): void {
    this.#end("turn", event, failed);
    for (const [key, span] of this.#open)
      if (span.turn === this.#turn && span.kind !== "command") this.#end(key, event);
    this.#silent.clear();
    this.#items.clear();
    this.#turn = 0;
  }

  #begin(event: SluiceEvent, kind: Span["kind"], key: string, label: string, id = ""): Span {
    const span: Span = {
      index: this.all.length,
      kind,
      id,
      owner: event.parent_id ?? "",
      sequence: event.sequence,
      last: 0,
      start: Date.parse(event.time),
      end: 0,
      firstToken: 0,
      firstTokenAt: 0,
      label: label.slice(0, 400),
      input: "",
      failed: false,
      turn: this.#turn,
      version: ++this.version,
    };
    this.all.push(span);
    this.#open.set(key, span);
    return span;
  }

  #end(key: string, event: SluiceEvent, failed = false): void {
    const span = this.#open.get(key);
    if (!span) return;
    this.#open.delete(key);
    this.#change(span, { last: event.sequence, end: Date.parse(event.time), ...(failed && { failed }) });
  }

  #change(span: Span, change: Partial<Span>): void {
    Object.assign(span, change, { version: ++this.version });
  }
}

const folds = new WeakMap<LogIndex, { fold: SpanFold; work: Promise<void> }>();

/** The spans of a log, folded when somebody asks and only from where the last answer ended. */
export async function readSpans(
  index: LogIndex,
  given: { log: number; version: number },
): Promise<SpanChanges> {
  let known = folds.get(index);
  if (!known) folds.set(index, (known = { fold: new SpanFold(index.base), work: Promise.resolve() }));
  const { fold } = known;
  known.work = known.work.catch(() => {}).then(() => catchUp(index, fold));
  await known.work;
  const after = given.log === fold.log ? given.version : 0;
  const spans = fold.all.filter(({ version }) => version > after);
  return { log: fold.log, version: fold.version, head: fold.head, spans };
}

async function catchUp(index: LogIndex, fold: SpanFold): Promise<void> {
  const { columns, texts } = index;
  while (fold.head < index.head) {
    const to = Math.min(index.head, fold.head + PAGE);
    for (let sequence = fold.head + 1; sequence <= to; sequence++) {
      if (!isTold(columns.typeOf(sequence))) {
        fold.head = sequence;
        continue;
      }
      if (texts.get(sequence) === undefined) await texts.load(sequence, to);
      const text = texts.get(sequence);
      if (text === undefined) throw new Error(`Event ${sequence} could not be read.`);
      fold.add(JSON.parse(text) as SluiceEvent);
    }
  }
}

/** Deltas and output begin and end nothing. */
function isTold(type: string): boolean {
  return type !== "item.delta" && type !== "command.output" && type !== "process.output";
}
