import { isDeepStrictEqual } from "node:util";
import {
  type ContentPart,
  type EventDraft,
  type InputList,
  SluiceError,
  type TurnOptions,
} from "../../contract/index.ts";
import { defined } from "../../contract/own-keys.ts";
import type { SessionContext } from "../context.ts";
import { toWaitingInput } from "../fold/info.ts";
import type { QueuedInput } from "../fold/queue.ts";
import type { SessionFold } from "../fold/session-fold.ts";
import { isSystemPart } from "./instructions.ts";

/** A change of the inputs that wait. */
export type QueueChange =
  | {
      readonly kind: "replace";
      readonly inputId: string;
      readonly content: readonly ContentPart[];
      readonly options?: TurnOptions | undefined;
    }
  | { readonly kind: "withdraw"; readonly inputId: string }
  | { readonly kind: "reorder"; readonly order: readonly string[] };

export interface QueueChangeOptions {
  /** The revision of the queue that the change expects. */
  readonly revision?: string | undefined;
  /** The author of the change in its event: the id of a token. */
  readonly by?: string | undefined;
}

export function toInputList({
  inbox,
  queueChanged = 0,
}: Pick<SessionFold, "inbox" | "queueChanged">): InputList {
  return { inputs: inbox.map(toWaitingInput), revision: String(queueChanged) };
}

/** The queue of a live session. */
export class InputQueue {
  readonly #context: SessionContext;
  readonly #runner: { withdraw(): void };

  constructor(context: SessionContext, runner: { withdraw(): void }) {
    this.#context = context;
    this.#runner = runner;
  }

  /** The inputs as they are in the fold, which may be ahead of the log. */
  get inbox(): readonly QueuedInput[] {
    return [...this.#context.writer.fold.inbox];
  }

  /** The inputs that wait, after all changes that are under way. */
  list(): Promise<InputList> {
    const { exclusive, writer } = this.#context;
    return exclusive(async () => toInputList(writer.fold));
  }

  /**
   * Appends the change under the lock. The start of a turn holds it too, so an input either begins or changes. A
   * repeated change appends nothing.
   */
  change(change: QueueChange, options: QueueChangeOptions = {}): Promise<InputList> {
    return this.#context.exclusive(() => this.#change(change, options));
  }

  async #change(change: QueueChange, { revision, by }: QueueChangeOptions): Promise<InputList> {
    const { fold } = this.#context.writer;
    if (change.kind === "reorder") {
      demandRevision(fold, revision);
      return this.#append(toReordered(fold, change, by));
    }
    if (change.kind === "withdraw" && isWithdrawn(fold, change.inputId)) return toInputList(fold);
    const input = demandWaiting(fold, change.inputId);
    demandRevision(fold, revision);
    if (change.kind === "replace") return this.#append(toReplaced(input, change, by));
    const list = await this.#append(toWithdrawn(input, by));
    if (fold.inbox.length === 0) this.#runner.withdraw();
    return list;
  }

  async #append(event: EventDraft | undefined): Promise<InputList> {
    const { writer, commit } = this.#context;
    if (event) await commit(writer.drafts([event]));
    return toInputList(writer.fold);
  }
}

/** Undefined where the queue has this order already. */
function toReordered(
  fold: SessionFold,
  { order }: Extract<QueueChange, { kind: "reorder" }>,
  by: string | undefined,
): EventDraft | undefined {
  demandPermutation(fold, order);
  if (order.every((id, place) => fold.inbox[place]?.inputId === id)) return undefined;
  const data = { input_ids: [...order], ...defined({ by }) };
  return { type: "input.reordered", source: "daemon", data };
}

function toWithdrawn({ inputId, turnId, payload }: QueuedInput, by: string | undefined): EventDraft {
  const data = { input_id: inputId, turn_id: turnId, ...defined({ by, payload }) };
  return { type: "input.withdrawn", source: "daemon", data };
}

/** Undefined where the input has this content and these options already. */
function toReplaced(
  input: QueuedInput,
  change: Extract<QueueChange, { kind: "replace" }>,
  by: string | undefined,
): EventDraft | undefined {
  // Instructions that came with the input are a part of its content where the agent takes none at its start.
  const content = [...change.content, ...input.content.filter(isSystemPart)];
  const options = change.options ?? input.options;
  if (isDeepStrictEqual(content, input.content) && isDeepStrictEqual(options, input.options))
    return undefined;
  const ids = { input_id: input.inputId, turn_id: input.turnId };
  const data = { ...ids, content, ...defined({ by, options: change.options }) };
  return { type: "input.replaced", source: "daemon", data };
}

function isWithdrawn({ inbox, left = [] }: SessionFold, inputId: string): boolean {
  if (inbox.some((input) => input.inputId === inputId)) return false;
  return left.some((gone) => gone.inputId === inputId && gone.how === "withdrawn");
}

function demandWaiting({ inbox, left = [], turn }: SessionFold, inputId: string): QueuedInput {
  const input = inbox.find((waiting) => waiting.inputId === inputId);
  if (input) return input;
  const gone = left.findLast((known) => known.inputId === inputId);
  if (gone?.how === "withdrawn")
    throw new SluiceError(
      "input_not_waiting",
      `The input ${inputId} was withdrawn. Send it as a new message.`,
      {
        inputId,
      },
    );
  if (!gone && !turn?.inputIds.includes(inputId))
    throw new SluiceError("input_not_found", `There is no input ${inputId} in the queue. List the queue.`, {
      inputId,
    });
  const turnId = gone?.turnId ?? turn?.id;
  const detail = `The input ${inputId} has begun as the turn ${turnId}. Interrupt the turn, or send a new message.`;
  throw new SluiceError("input_not_waiting", detail, { inputId, turnId });
}

function demandRevision({ queueChanged = 0 }: SessionFold, expected: string | undefined): void {
  const revision = String(queueChanged);
  if (expected === undefined || expected === revision) return;
  const detail = `The queue has changed: its revision is ${revision}, not ${expected}. Read it again.`;
  throw new SluiceError("precondition_failed", detail, { revision });
}

function demandPermutation({ inbox }: SessionFold, order: readonly string[]): void {
  const waiting = new Set(inbox.map(({ inputId }) => inputId));
  if (
    new Set(order).size === order.length &&
    order.length === waiting.size &&
    order.every((id) => waiting.has(id))
  )
    return;
  const detail = `order: expected each of the ${waiting.size} inputs that wait, once.`;
  throw new SluiceError("invalid_request", detail, { waiting: [...waiting] });
}
