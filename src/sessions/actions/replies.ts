import {
  AUTHOR_EVENT,
  SluiceError,
  type ContentPart,
  type EventData,
  type EventDraft,
  type PermissionReply,
  type QuestionReply,
  type ToolReply,
} from "../../contract/index.ts";
import type { SessionContext } from "../context.ts";
import type { SessionFold } from "../fold/session-fold.ts";
import type { Pending } from "../fold/turn-fold.ts";
import { type KeyOptions, recallAnswer, rememberAnswer } from "../inbox/idempotency.ts";
import { toResponse } from "./question-response.ts";

export type Reply =
  | ({ readonly kind: "permission"; readonly by?: string; readonly payload?: unknown } & PermissionReply)
  | ({
      readonly kind: "question";
      readonly by?: string;
      readonly events?: readonly EventData<"custom">[];
    } & (QuestionReply | { readonly rejected: true }))
  | ({ readonly kind: "tool"; readonly by?: string; readonly payload?: unknown } & (
      | ToolReply
      | {
          readonly content: readonly ContentPart[];
          readonly isError?: boolean;
          readonly events?: readonly EventData<"custom">[] | undefined;
        }
    ));

/** Appends a reply, once for its idempotency key. Call it under the lock. */
export async function replyOnce(
  { deps, writer, commit }: SessionContext,
  { id, reply }: { id: string; reply: Reply },
  { key, by }: KeyOptions = {},
): Promise<void> {
  const { by: _dialect, ...content } = reply;
  const request = { key, kind: "reply", body: [id, content] };
  if (await recallAnswer(deps.log, writer.row.id, request)) return;
  await commit(writer.drafts(replyEvents(writer.fold, id, reply, by)), rememberAnswer(request, {}));
}

/**
 * The events of a reply. The first reply wins; a later one fails and is told the first. `author` is the token that gave
 * it, in place of the dialect. Pure.
 */
export function replyEvents(fold: SessionFold, id: string, reply: Reply, author?: string): EventDraft[] {
  const pending = fold.turn?.pending.find((pending) => pending.id === id && pending.kind === reply.kind);
  if (pending)
    return [...authorEvents(pending, author), ...ownEvents(pending, reply), toEvent(pending, reply, author)];
  const known = fold.answered.find((answer) => answer.id === id);
  if (!known) {
    throw new SluiceError(
      "action_not_found",
      `no open ${reply.kind} has the id ${id}; GET the session lists those that are open`,
    );
  }
  const who = known.by === undefined ? "" : ` by ${known.by}`;
  throw new SluiceError(
    "already_resolved",
    `${reply.kind} ${id} was already resolved${who}: ${known.answer}`,
    {
      resolution: known.answer,
      ...(known.by === undefined ? {} : { by: known.by }),
    },
  );
}

/** The schema of a question's answer is closed, so that an event of its own names the author. */
function authorEvents({ kind, id, parentId }: Pending, author: string | undefined): EventDraft[] {
  if (kind !== "question" || author === undefined) return [];
  const data = { name: AUTHOR_EVENT, value: { question_id: id, by: author } };
  return [{ type: "custom", source: "daemon", parent_id: parentId, data }];
}

function ownEvents({ parentId }: Pending, reply: Reply): EventDraft[] {
  const events = reply.kind === "permission" ? [] : (reply.events ?? []);
  return events.map((data) => ({ type: "custom", source: "daemon", parent_id: parentId, data }));
}

function toEvent(pending: Pending, reply: Reply, author: string | undefined): EventDraft {
  const by = author ?? reply.by;
  if (reply.kind === "permission") {
    const { kind: _, ...decision } = reply;
    return {
      type: "permission.resolved",
      source: "daemon",
      data: {
        permission_id: pending.id,
        action: pending.prompt,
        status: reply.reply === "reject" ? "denied" : "approved",
        metadata: {
          ...(pending.metadata as object | undefined),
          ...decision,
          ...(by === undefined ? {} : { by }),
        },
      },
    };
  }
  if (reply.kind === "question") {
    const answer =
      "answers" in reply
        ? { status: "answered" as const, response: toResponse(reply.answers) }
        : { status: "rejected" as const };
    return {
      type: "question.resolved",
      source: "daemon",
      data: {
        question_id: pending.id,
        prompt: pending.prompt,
        options: pending.options ?? [],
        ...answer,
      },
    };
  }
  return {
    type: "tool.resolved",
    source: "daemon",
    data: {
      request_id: pending.id,
      name: pending.prompt,
      status: reply.isError === true ? "failed" : "completed",
      content: "content" in reply ? [...reply.content] : [{ type: "text", text: reply.output }],
      ...(by === undefined ? {} : { by }),
      ...(reply.payload === undefined ? {} : { payload: reply.payload }),
    },
  };
}
