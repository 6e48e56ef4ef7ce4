import type { Outline, SluiceEvent } from "../../contract/index.ts";
import { toText } from "./moment.ts";
import type { Mark, TurnSummary } from "./protocol.ts";

/** The turns of a log, and the moments that the bar marks. */
export class Turns {
  readonly all: TurnSummary[] = [];
  readonly marks: Mark[] = [];
  version = 0;
  readonly #titles = new Map<string, string>();
  readonly #byId = new Map<string, TurnSummary>();
  readonly #before: number;

  constructor(before = 0) {
    this.#before = before;
  }

  add(event: SluiceEvent): void {
    const { sequence } = event;
    switch (event.type) {
      case "input.accepted":
        this.#titles.set(event.data.input_id, toTitle(toText(event.data.content)));
        return;
      case "turn.started": {
        const turn: TurnSummary = {
          id: event.data.turn_id,
          index: this.#before + this.all.length + 1,
          first: sequence,
          last: 0,
          startedAt: Date.parse(event.time),
          endedAt: 0,
          status: "running",
          stopReason: "",
          title: this.#titles.get(event.data.input_ids[0] ?? "") ?? "",
          usage: {},
          calls: 0,
          errors: 0,
          asks: 0,
        };
        for (const id of event.data.input_ids) this.#titles.delete(id);
        this.all.push(turn);
        this.#byId.set(turn.id, turn);
        return this.#mark(sequence, "turn", `Turn ${turn.index}${turn.title && `: ${turn.title}`}`);
      }
      case "turn.ended": {
        const turn = this.#byId.get(event.data.turn_id);
        if (turn) {
          turn.last = sequence;
          turn.endedAt = Date.parse(event.time);
          turn.status = event.data.status;
          turn.stopReason = event.data.stop_reason;
          turn.usage = event.data.usage ?? {};
        }
        this.version += 1;
        if (event.data.status === "failed") this.#mark(sequence, "error", event.data.stop_reason);
        return;
      }
      case "item.started":
        if (event.data.item.kind === "tool_call") this.#count("calls");
        return;
      case "permission.requested":
      case "question.requested":
      case "tool.requested": {
        this.#count("asks");
        const prompt = event.type === "question.requested" ? event.data.prompt : "";
        const action = event.type === "permission.requested" ? event.data.action : prompt;
        return this.#mark(sequence, "ask", toTitle(action || event.type));
      }
      case "error":
        this.#count("errors");
        return this.#mark(sequence, "error", toTitle(event.data.message));
      case "checkpoint.created":
        this.marks.push({
          sequence,
          kind: "checkpoint",
          label: toTitle(event.data.comment ?? "checkpoint"),
          id: event.data.checkpoint_id,
        });
        this.version += 1;
        return;
      default:
    }
  }

  /** The turn of an event: the last one that started before it. */
  at(sequence: number): TurnSummary | undefined {
    let [low, high] = [0, this.all.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.all[middle] as TurnSummary).first <= sequence) low = middle + 1;
      else high = middle;
    }
    return this.all[low - 1];
  }

  #count(what: "calls" | "errors" | "asks"): void {
    const turn = this.all.at(-1);
    if (turn && turn.last === 0) turn[what] += 1;
  }

  #mark(sequence: number, kind: Mark["kind"], label: string): void {
    this.marks.push({ sequence, kind, label });
    this.version += 1;
  }
}

export function toTitle(text: string): string {
  const line = text.trim().split("\n", 1)[0] ?? "";
  return line.length > 120 ? `${line.slice(0, 119)}…` : line;
}

/** The turns and marks of an outline. */
export function fromOutline(outline: Outline): { turns: TurnSummary[]; marks: Mark[] } {
  const marks: Mark[] = [];
  const turns = outline.turns.map((turn): TurnSummary => {
    marks.push({ sequence: turn.first, kind: "turn", label: `Turn ${turn.number}` });
    const isOver = turn.endedAt !== undefined;
    return {
      id: turn.turnId,
      index: turn.number,
      first: turn.first,
      last: isOver ? turn.last : 0,
      startedAt: turn.startedAt,
      endedAt: turn.endedAt ?? 0,
      status: turn.status === "waiting" || turn.status === "retrying" ? "running" : turn.status,
      stopReason: turn.stopReason ?? "",
      title: toTitle(turn.prompt),
      usage: turn.usage,
      calls: turn.calls,
      errors: turn.errors,
      asks: turn.asks,
    };
  });
  for (const { kind, sequence, id } of [...outline.turns.flatMap((turn) => turn.marks), ...outline.marks])
    if (kind === "ask" || kind === "error" || kind === "checkpoint")
      marks.push({ sequence, kind, label: kind, ...(id !== undefined && { id }) });
  return { turns, marks: marks.toSorted((a, b) => a.sequence - b.sequence) };
}
