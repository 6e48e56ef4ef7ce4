import {
  createId,
  type ContentPart,
  type EventData,
  type EventDraft,
  type TurnOptions,
} from "../../contract/index.ts";
import { Drafts } from "../fold/drafts.ts";
import type { SessionFold } from "../fold/session-fold.ts";
import { replyEvents, type Reply } from "../actions/replies.ts";

/** One request of a client. Several are accepted together, or none is. */
export type Submission =
  | {
      readonly kind: "message";
      readonly content: readonly ContentPart[];
      readonly payload?: unknown;
      /** Instructions for the agent, from this message's turn on. */
      readonly instructions?: string;
      readonly delivery?: "queue" | "steer" | "alone";
      readonly options?: TurnOptions;
    }
  | { readonly kind: "interrupt"; readonly by?: string; readonly payload?: unknown }
  /** An event of a dialect's own. */
  | { readonly kind: "custom"; readonly name: string; readonly value: unknown }
  /** A failure outside of the agent's work. */
  | { readonly kind: "error"; readonly error: EventData<"error"> }
  | (Reply & { readonly id: string });

/** The events of a submission, its own event last; none for an interrupt where nothing runs. */
export function submissionEvents(
  fold: SessionFold,
  submission: Submission,
  options: { via: string; by?: string | undefined; steers: boolean },
): EventDraft[] {
  const author = options.by === undefined ? {} : { by: options.by };
  if (submission.kind === "message") {
    const { content, payload, instructions, options: turnOptions } = submission;
    const turnId = options.steers && fold.turn ? fold.turn.id : createId("turn");
    const data = { input_id: createId("input"), turn_id: turnId, via: options.via, content: [...content] };
    const event: EventDraft = {
      type: "input.accepted",
      source: "daemon",
      data: {
        ...data,
        ...author,
        ...(payload === undefined ? {} : { payload }),
        ...(instructions === undefined ? {} : { instructions }),
        ...(turnOptions === undefined ? {} : { options: turnOptions }),
      },
    };
    return [event];
  }
  if (submission.kind === "custom") {
    const { name, value } = submission;
    return [{ type: "custom", source: "daemon", data: { name, value } }];
  }
  if (submission.kind === "error") return [{ type: "error", source: "daemon", data: submission.error }];
  if (submission.kind !== "interrupt") {
    const { id, ...reply } = submission;
    return replyEvents(fold, id, reply as Reply, options.by);
  }
  const { turn } = fold;
  const { by, payload } = submission;
  // Without a turn to interrupt there is no event. A dialect that echoes requests gives a payload, and needs the event.
  if ((!turn || turn.interrupt) && payload === undefined) return [];
  const data = {
    turn_id: turn?.id ?? "",
    ...(by === undefined ? {} : { by }),
    ...author,
    ...(payload === undefined ? {} : { payload }),
  };
  return [{ type: "interrupt.requested", source: "daemon", data }];
}

/**
 * The events of all submissions, each computed after those before it. They are applied to a copy of the fold first, so
 * that a refused submission changes nothing.
 */
export function allSubmissionEvents(
  fold: SessionFold,
  submissions: readonly Submission[],
  options: { via: string; by?: string | undefined; steers: (submission: Submission) => boolean },
): EventDraft[][] {
  const toEvents = (at: SessionFold, submission: Submission): EventDraft[] =>
    submissionEvents(at, submission, { ...options, steers: options.steers(submission) });
  if (submissions.length === 1) return submissions.map((submission) => toEvents(fold, submission));
  const trial = structuredClone(fold);
  const drafts = new Drafts(trial, 0);
  return submissions.map((submission) => {
    const events = toEvents(trial, submission);
    drafts.addAll(structuredClone(events));
    return events;
  });
}
