import type { ContentPart, EventDraft, TurnOptions } from "../../contract/index.ts";
import { defined } from "../../contract/own-keys.ts";
import { steer, type TurnFold } from "./turn-fold.ts";

const LEFT_KEPT = 64;

export interface QueuedInput {
  inputId: string;
  turnId: string;
  content: ContentPart[];
  /** The sequence of its `input.accepted`, and the client's own request where its dialect echoes requests. */
  sequence?: number;
  payload?: unknown;
  /** A client replaced the content, so the payload no longer has it. */
  replaced?: true;
  /** Instructions that the agent has to be started with. */
  instructions?: string;
  options?: TurnOptions;
}

/** An input that no longer waits. */
export interface LeftInput {
  inputId: string;
  how: "started" | "withdrawn";
  turnId: string;
}

/** The part of the session's fold that is its queue. */
interface Queue {
  inbox: QueuedInput[];
  readonly turn: TurnFold | null;
  queueChanged?: number;
  left?: LeftInput[];
}

/** Applies an event of the queue: inputs that come, change, and leave. */
export function applyToQueue(
  fold: Queue,
  event: Extract<EventDraft, { type: `input.${string}` }>,
  sequence: number,
): void {
  switch (event.type) {
    case "input.accepted": {
      const { input_id: inputId, turn_id: turnId, content, payload, instructions, options } = event.data;
      // An input with the id of the running turn joins it; every other input waits in the queue.
      if (fold.turn?.id === turnId) {
        leave(fold, { inputId, how: "started", turnId });
        return steer(fold.turn, inputId, content);
      }
      fold.inbox.push({
        inputId,
        turnId,
        content,
        ...(payload === undefined ? {} : { sequence, payload }),
        ...defined({ instructions, options }),
      });
      break;
    }
    case "input.replaced": {
      const { input_id: inputId, content, options } = event.data;
      fold.inbox = fold.inbox.map((input) =>
        input.inputId === inputId
          ? { ...input, content, replaced: true as const, ...defined({ options }) }
          : input,
      );
      break;
    }
    case "input.withdrawn": {
      const { input_id: inputId, turn_id: turnId } = event.data;
      fold.inbox = fold.inbox.filter((input) => input.inputId !== inputId);
      leave(fold, { inputId, how: "withdrawn", turnId });
      break;
    }
    case "input.reordered": {
      const places = new Map(event.data.input_ids.map((id, place) => [id, place]));
      const placeOf = ({ inputId }: QueuedInput): number => places.get(inputId) ?? places.size;
      fold.inbox = fold.inbox.toSorted((a, b) => placeOf(a) - placeOf(b));
      break;
    }
    default:
  }
  fold.queueChanged = sequence;
}

/** Takes the inputs of a starting turn out of the queue. */
export function takeInputs(
  fold: Queue,
  { ids, turnId }: { ids: readonly string[]; turnId: string },
  sequence: number,
): QueuedInput[] {
  const inputs = fold.inbox.filter((input) => ids.includes(input.inputId));
  fold.inbox = fold.inbox.filter((input) => !ids.includes(input.inputId));
  for (const { inputId } of inputs) leave(fold, { inputId, how: "started", turnId });
  fold.queueChanged = sequence;
  return inputs;
}

function leave(fold: Queue, left: LeftInput): void {
  fold.left = [...(fold.left ?? []), left].slice(-LEFT_KEPT);
}
