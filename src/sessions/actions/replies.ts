import { defined } from "../../contract/own-keys.ts";
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
import { permissionResolved, questionResolved, toolResolved, toResponse } from "./resolutions.ts";
import { type KeyOptions, recallAnswer, rememberAnswer } from "../inbox/idempotency.ts";

export type Reply =
  | ({ readonly kind: "permission"; readonly by?: string; readonly payload?: unknown } & PermissionReply)
  | ({
      readonly kind: "question";
      readonly by?: string;
      readonly events?: readonly EventData<"custom">[];
    } & (QuestionReply | { readonly rejected: true; readonly message?: string | undefined }))
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
 * The events of a reply. The first reply wins; a later one fails with the first answer. `author` is the id of the
 * replying client's token; without it, the answer names the client's dialect. Pure.
 */
export function replyEvents(fold: SessionFold, id: string, reply: Reply, author?: string): EventDraft[] {
  const pending = fold.turn?.pending.find((pending) => pending.id === id && pending.kind === reply.kind);
  if (pending)
    return [
      ...authorEvents(pending, author),
      ...customEvents(pending, reply),
      toEvent(pending, reply, author),
    ];
  const known = fold.answered.find((answer) => answer.id === id);
  if (!known) {
    const detail = `no open ${reply.kind} has the id ${id}; GET the session lists those that are open`;
    throw new SluiceError("action_not_found", detail);
  }
  const { answer, by } = known;
  const detail = `${reply.kind} ${id} was already resolved${by === undefined ? "" : ` by ${by}`}: ${answer}`;
  throw new SluiceError("already_resolved", detail, { resolution: answer, ...defined({ by }) });
}

/** A question's answer has no field for its author, so an event before it names the author. */
function authorEvents({ kind, id, parentId }: Pending, author: string | undefined): EventDraft[] {
  if (kind !== "question" || author === undefined) return [];
  const data = { name: AUTHOR_EVENT, value: { question_id: id, by: author } };
  return [{ type: "custom", source: "daemon", parent_id: parentId, data }];
}

/** The dialect's own events about the answer. They precede it. */
function customEvents({ parentId }: Pending, reply: Reply): EventDraft[] {
  const events = reply.kind === "permission" ? [] : (reply.events ?? []);
  return events.map((data) => ({ type: "custom", source: "daemon", parent_id: parentId, data }));
}

function toEvent(pending: Pending, reply: Reply, author: string | undefined): EventDraft {
  const by = author ?? reply.by;
  if (reply.kind === "permission") {
    const { kind: _, ...decision } = reply;
    const status = reply.reply === "reject" ? "denied" : "approved";
    return permissionResolved(pending, status, { ...decision, ...defined({ by }) });
  }
  if (reply.kind === "question") {
    const answer =
      "answers" in reply
        ? { status: "answered" as const, response: toResponse(reply.answers) }
        : { status: "rejected" as const, ...defined({ response: reply.message }) };
    return questionResolved(pending, answer);
  }
  const { payload } = reply;
  return toolResolved(pending, {
    status: reply.isError === true ? "failed" : "completed",
    content: "content" in reply ? [...reply.content] : [{ type: "text", text: reply.output }],
    ...defined({ by, payload }),
  });
}
