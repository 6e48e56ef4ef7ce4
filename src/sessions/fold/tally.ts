import {
  type ContentPart,
  type EventData,
  type EventDraft,
  type Item,
  OutlineTurn,
  type OutlineMark,
} from "../../contract/index.ts";
import { defined } from "../../contract/own-keys.ts";
import type { KeptTurn } from "../../log/kept/turns.ts";
import type { QueuedInput } from "./queue.ts";
import type { TurnFold } from "./turn-fold.ts";

const MAX_MARKS = 100;
const PROMPT_LENGTH = 200;

/** The counts of the running turn, and of the time since the turn before. */
export interface Tally {
  /** Turns that have started. */
  turns: number;
  /** The sequence after the end of the turn before. */
  from: number;
  first: number;
  prompt: string;
  items: number;
  calls: number;
  errors: number;
  asks: number;
  marks: OutlineMark[];
  moreMarks: number;
}

/** The part of the session's fold that the tally uses. */
interface Counted {
  readonly head: number;
  readonly inbox: readonly QueuedInput[];
  readonly turn: TurnFold | null;
  tally?: Tally;
}

/** The tally of a log that begins with the sequence `from`. */
export function emptyTally(from: number, turns = 0): Tally {
  return {
    turns,
    from,
    first: 0,
    prompt: "",
    items: 0,
    calls: 0,
    errors: 0,
    asks: 0,
    marks: [],
    moreMarks: 0,
  };
}

/** Counts an event, before it changes the fold. A fold of an older version has no tally, and gets none. */
export function count(fold: Counted, event: EventDraft, sequence: number): void {
  if (sequence === 1) fold.tally = emptyTally(1);
  const { tally } = fold;
  if (tally === undefined) return;
  switch (event.type) {
    case "turn.started":
      tally.turns += 1;
      tally.first = sequence;
      tally.prompt = toPrompt(fold, event.data);
      return;
    case "turn.ended":
      fold.tally = emptyTally(sequence + 1, tally.turns);
      return;
    case "item.started":
      tally.items += 1;
      if (event.data.item.kind === "tool_call") tally.calls += 1;
      return;
    case "item.completed":
      if (isFailedResult(event.data.item)) tally.errors += 1;
      return;
    case "turn.retrying":
    case "error":
      tally.errors += 1;
      return mark(tally, { sequence, kind: "error" });
    case "permission.requested":
      return ask(tally, { sequence, kind: "ask", id: event.data.permission_id, asks: "permission" });
    case "question.requested":
      return ask(tally, { sequence, kind: "ask", id: event.data.question_id, asks: "question" });
    case "tool.requested":
      return ask(tally, { sequence, kind: "ask", id: event.data.request_id, asks: "tool" });
    case "checkpoint.created":
      return mark(tally, { sequence, kind: "checkpoint", id: event.data.checkpoint_id });
    case "checkpoint.restored":
      return mark(tally, { sequence, kind: "restore", id: event.data.checkpoint_id });
    case "context.compacted":
      return mark(tally, { sequence, kind: "compaction" });
    case "interrupt.requested":
      return mark(tally, { sequence, kind: "interrupt" });
    default:
  }
}

/** The turn that this event ends, to be kept; undefined for a fold without a tally. Call it before the event is applied. */
export function toEndedTurn(
  fold: Counted,
  data: EventData<"turn.ended">,
  sequence: number,
  time: number,
): KeptTurn | undefined {
  const { tally } = fold;
  const turn = toTurn(fold, sequence);
  if (!tally || !turn) return undefined;
  const ended: OutlineTurn = {
    ...turn,
    status: data.status,
    stopReason: data.stop_reason,
    endedAt: time,
    usage: data.usage ?? turn.usage,
  };
  return { from: tally.from, last: sequence, outline: JSON.stringify(ended) };
}

/** The running turn; undefined where there is none. */
export function toRunningTurn(fold: Counted): OutlineTurn | undefined {
  return toTurn(fold, fold.head);
}

/** The outline of a kept turn; undefined for a damaged row. */
export function fromKeptTurn({ outline }: KeptTurn): OutlineTurn | undefined {
  try {
    return OutlineTurn.parse(JSON.parse(outline));
  } catch {
    return undefined;
  }
}

/** The text of a message's content. */
export function toText(content: readonly ContentPart[]): string {
  return content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
}

/** The first words of a text. The cut leaves no half of a surrogate pair. */
export function toFirstWords(text: string): string {
  return text.slice(0, PROMPT_LENGTH).replace(/[\uD800-\uDBFF]$/, "");
}

function toTurn({ tally, turn }: Counted, last: number): OutlineTurn | undefined {
  if (!tally || !turn) return undefined;
  const { turns: number, first, prompt, items, calls, errors, asks, marks, moreMarks } = tally;
  return {
    number,
    turnId: turn.id,
    first,
    last,
    status: statusOfTurn(turn),
    startedAt: turn.startedAt,
    prompt,
    usage: { ...turn.usage },
    items,
    calls,
    errors,
    asks,
    marks: [...marks],
    ...defined({ moreMarks: moreMarks === 0 ? undefined : moreMarks }),
  };
}

/** The status of a session whose turn this is. */
export function statusOfTurn({ retry, waitingFor }: TurnFold): "running" | "waiting" | "retrying" {
  if (retry) return "retrying";
  return waitingFor.length > 0 ? "waiting" : "running";
}

function toPrompt({ inbox }: Counted, { input_ids: ids }: EventData<"turn.started">): string {
  const input = inbox.find(({ inputId }) => ids.includes(inputId));
  return input ? toFirstWords(toText(input.content)) : "";
}

function ask(tally: Tally, at: OutlineMark): void {
  tally.asks += 1;
  mark(tally, at);
}

function mark(tally: Tally, at: OutlineMark): void {
  if (tally.marks.length < MAX_MARKS) tally.marks.push(at);
  else tally.moreMarks += 1;
}

function isFailedResult({ kind, status }: Item): boolean {
  return kind === "tool_result" && status === "failed";
}

/** Whether the agent says something in the item. */
export function isSpeech({ kind, role, content }: Item): boolean {
  return kind === "message" && role === "assistant" && content.some(({ type }) => type === "text");
}
