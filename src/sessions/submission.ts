import { createId, type ContentPart, type EventDraft } from "../contract/index.ts";
import { Drafts } from "./drafts.ts";
import type { SessionFold } from "./fold.ts";
import { replyEvent, type Reply } from "./replies.ts";

/** One thing that a client tells a session. Several of them are taken together, or none is. */
export type Submission =
  | {
      readonly kind: "message";
      readonly content: readonly ContentPart[];
      readonly payload?: unknown;
      readonly delivery?: "queue" | "steer";
    }
  | { readonly kind: "interrupt"; readonly by?: string; readonly payload?: unknown }
  | (Reply & { readonly id: string });

/** The one event that a submission becomes, by what the session is at that moment; undefined where there is nothing to stop. */
export function submissionEvent(
  fold: SessionFold,
  submission: Submission,
  options: { via: string; steers: boolean },
): EventDraft | undefined {
  if (submission.kind === "message") {
    const { content, payload } = submission;
    const turnId = options.steers && fold.turn ? fold.turn.id : createId("turn");
    const data = { input_id: createId("input"), turn_id: turnId, via: options.via, content: [...content] };
    return {
      type: "input.accepted",
      source: "daemon",
      data: payload === undefined ? data : { ...data, payload },
    };
  }
  if (submission.kind !== "interrupt") {
    const { id, ...reply } = submission;
    return replyEvent(fold, id, reply as Reply);
  }
  const { turn } = fold;
  if (!turn || turn.interrupt) return undefined;
  const { by, payload } = submission;
  const data = {
    turn_id: turn.id,
    ...(by === undefined ? {} : { by }),
    ...(payload === undefined ? {} : { payload }),
  };
  return { type: "interrupt.requested", source: "daemon", data };
}

/**
 * The events of all submissions, each by what those before it have changed. They are tried on a copy of the fold:
 * when one of them is refused, nothing has happened.
 */
export function submissionEvents(
  fold: SessionFold,
  submissions: readonly Submission[],
  options: { via: string; steers: (submission: Submission) => boolean },
): (EventDraft | undefined)[] {
  const toEvent = (at: SessionFold, submission: Submission): EventDraft | undefined =>
    submissionEvent(at, submission, { via: options.via, steers: options.steers(submission) });
  if (submissions.length === 1) return submissions.map((submission) => toEvent(fold, submission));
  const trial = structuredClone(fold);
  const drafts = new Drafts(trial, 0);
  return submissions.map((submission) => {
    const event = toEvent(trial, submission);
    if (event) drafts.add(structuredClone(event));
    return event;
  });
}
