import { defined } from "../../contract/own-keys.ts";
import type { EventData, EventDraft, EventSource } from "../../contract/index.ts";
import type { KeptTurn } from "../../log/kept/turns.ts";
import type { UsageRow } from "../../log/kept/usage.ts";
import { cutEvent, mayBeTooLong } from "./long-texts.ts";
import type { Redact } from "../secrets/redact.ts";
import { toUsageRow } from "./usage-row.ts";
import { applyDelta, applyEvent, type SessionFold } from "./session-fold.ts";
import { toEndedTurn } from "./tally.ts";

/** The events of one append. Each is applied to the fold as it is added, so that the next can build on it. */
export class Drafts {
  readonly time: number;
  readonly events: EventDraft[] = [];
  /** The turns that end in this append, to be kept. */
  readonly turns: KeptTurn[] = [];
  /** The model requests that end in this append, to be booked. */
  readonly usage: UsageRow[] = [];
  startsTurn = false;
  /** Whether a turn ends in this append: snapshots are taken there. */
  endsTurn = false;
  /** Whether this append has events other than message text. Alarms, deliveries and waiting callers depend on them. */
  movesTurn = false;
  readonly #fold: SessionFold;
  readonly #redact: Redact;
  readonly #lasts: boolean;

  /** `lasts`: the session goes on without its agent. */
  constructor(fold: SessionFold, time: number, options: { redact?: Redact; lasts?: boolean } = {}) {
    this.#fold = fold;
    this.time = time;
    this.#redact = options.redact ?? ((text) => text);
    this.#lasts = options.lasts ?? false;
  }

  add(given: EventDraft): void {
    const fold = this.#fold;
    const event = this.#joins(given) ? withContent(given, this.#redact) : given;
    const cut = cutEvent(event);
    if (cut) this.add(cut);
    const turnId = hasOwnTurn(event) ? event.data.turn_id : fold.turn?.id;
    if (turnId !== undefined) event.turn_id = turnId;
    if (event.native_session_id === undefined && fold.nativeSessionId !== null) {
      event.native_session_id = fold.nativeSessionId;
    }
    if (event.type === "turn.ended") {
      if (this.#lasts && ENDS_SESSION.has(event.data.stop_reason)) event.data.session_lasts = true;
      const ended = toEndedTurn(fold, event.data, fold.head + 1, this.time);
      if (ended) this.turns.push(ended);
    }
    if (event.type === "model.ended") this.usage.push(toUsageRow(fold, event.data, this.time));
    if (event.type === "turn.started") this.startsTurn = true;
    applyEvent(fold, event, fold.head + 1, this.time);
    this.events.push(event);
    if (!isMessageText(event)) this.movesTurn = true;
    if (event.type === "turn.ended") this.endsTurn = true;
  }

  /** Whether the event joins the pieces of a stream. Each piece was redacted alone, but a secret may span several. */
  #joins(event: EventDraft): event is ItemCompleted {
    if (event.type !== "item.completed") return false;
    const { turn, open } = this.#fold;
    const { item_id: id } = event.data.item;
    return ((turn?.open[id] ?? open[id])?.text ?? "") !== "";
  }

  /** Adds a delta, the most frequent event: it makes one object of one shape. */
  addDelta(data: EventData<"item.delta">, from: DeltaOrigin): void {
    const fold = this.#fold;
    if (mayBeTooLong(data.delta)) return this.add(toDraft(data, from));
    applyDelta(fold, data);
    this.events.push({
      type: "item.delta",
      data,
      source: from.source,
      turn_id: fold.turn?.id,
      parent_id: from.parentId,
      native_session_id: fold.nativeSessionId ?? undefined,
      raw: from.raw,
    });
  }

  addAll(events: readonly EventDraft[]): void {
    for (const event of events) this.add(event);
  }
}

interface DeltaOrigin {
  readonly source: EventSource;
  readonly parentId: string | undefined;
  readonly raw: string | undefined;
}

function toDraft(data: EventData<"item.delta">, { source, parentId, raw }: DeltaOrigin): EventDraft {
  return { type: "item.delta", source, data, ...defined({ parent_id: parentId, raw }) };
}

type ItemCompleted = Extract<EventDraft, { type: "item.completed" }>;

function withContent(event: ItemCompleted, redact: Redact): ItemCompleted {
  const { item } = event.data;
  const content = item.content.map((part) => {
    if (part.type === "text" || part.type === "reasoning") return { ...part, text: redact(part.text) };
    if (part.type === "tool_call") return { ...part, arguments: redact(part.arguments) };
    if (part.type === "tool_result") return { ...part, output: redact(part.output) };
    return part;
  });
  return { ...event, data: { ...event.data, item: { ...item, content } } };
}

/** The stop reasons of turns that end the session as well, unless it lasts. */
const ENDS_SESSION: ReadonlySet<string> = new Set(["model_error", "agent_exited"]);

const WITH_OWN_TURN = new Set([
  "input.accepted",
  "input.replaced",
  "input.withdrawn",
  "turn.started",
] as const);
type OwnTurnType = typeof WITH_OWN_TURN extends Set<infer Type> ? Type : never;

/** Whether the event belongs to the turn that it names, and not to the running one. */
function hasOwnTurn(event: EventDraft): event is Extract<EventDraft, { type: OwnTurnType }> {
  return WITH_OWN_TURN.has(event.type as OwnTurnType);
}

function isMessageText(event: EventDraft): boolean {
  if (event.type !== "item.started" && event.type !== "item.completed") return false;
  return event.source === "agent" && event.data.item.kind === "message";
}
