import { isRecord, own, SluiceError } from "../../contract/index.ts";
import { type InputMessage, type ResumeEntry, type RunInput, textOf } from "./parse.ts";
import { type Ask, type RunPayload, toPayload } from "./state.ts";

export type Answer =
  | { kind: "permission"; id: string; reply: "once" | "always" | "reject"; message?: string; by: string }
  | ({ kind: "question"; id: string; by: string } & ({ answers: string[][] } | { rejected: true }))
  | { kind: "tool"; id: string; output: string; isError: boolean; by: string; payload: unknown };

const BY = "ag-ui";

/** A client's answers: `resume` entries to interrupts, tool messages to its own tools. */
export function toAnswers(input: RunInput, asks: Readonly<Record<string, Ask>>, run: RunPayload): Answer[] {
  const answers = [
    ...(input.resume ?? []).map((entry) => toAnswer(entry, own(asks, entry.interruptId))),
    ...input.messages.flatMap((message) => toToolAnswer(message, asks, run)),
  ];
  // A client may repeat a message in its history. The last answer to a request counts.
  return [...new Map(answers.map((answer) => [answer.id, answer])).values()];
}

function toAnswer(entry: ResumeEntry, ask: Ask | undefined): Answer {
  const { interruptId: id, status, payload } = entry;
  // A late answer has no open request; its id shows the kind.
  const kind = ask?.kind ?? (id.startsWith("ques_") ? "question" : "permission");
  if (kind === "question") {
    if (status === "cancelled") return { kind, id, rejected: true, by: BY };
    return { kind, id, answers: toReplies(id, payload), by: BY };
  }
  if (kind === "tool") throw wrong(id, "it waits for a tool message with its toolCallId");
  if (status === "cancelled") return { kind, id, reply: "reject", by: BY };
  const approved = isRecord(payload) ? payload["approved"] : payload;
  if (typeof approved !== "boolean") throw wrong(id, "expected the payload {approved: boolean}");
  const { remember, message } = isRecord(payload) ? payload : {};
  if (approved) return { kind, id, reply: remember === true ? "always" : "once", by: BY };
  return { kind, id, reply: "reject", by: BY, ...(typeof message === "string" ? { message } : {}) };
}

function toReplies(id: string, payload: unknown): string[][] {
  if (typeof payload === "string") return [[payload]];
  const { answer, answers } = isRecord(payload) ? payload : {};
  if (typeof answer === "string") return [[answer]];
  const list = answer ?? answers;
  // Only the harness knows the number of questions: it gives each its choice of the list.
  if (Array.isArray(list) && list.every((one) => typeof one === "string"))
    return list.length === 0 ? [] : [list];
  if (
    Array.isArray(list) &&
    list.every((one) => Array.isArray(one) && one.every((word) => typeof word === "string"))
  )
    return list as string[][];
  throw wrong(id, "expected the payload {answer: string}");
}

function toToolAnswer(message: InputMessage, asks: Readonly<Record<string, Ask>>, run: RunPayload): Answer[] {
  if (message.role !== "tool" || message.toolCallId === undefined) return [];
  const [id] =
    Object.entries(asks).find(([, { kind, callId }]) => kind === "tool" && callId === message.toolCallId) ??
    [];
  if (id === undefined) return [];
  const payload = toPayload({
    runId: run.runId,
    ...(message.id === undefined ? {} : { messageId: message.id }),
  });
  return [{ kind: "tool", id, output: textOf(message), isError: isFailure(message), by: BY, payload }];
}

function isFailure({ error, metadata }: InputMessage): boolean {
  if (error !== undefined && error !== null) return true;
  const extras = isRecord(metadata) ? metadata["tanstack"] : undefined;
  return isRecord(extras) && (extras["state"] === "output-error" || extras["state"] === "error");
}

function wrong(id: string, why: string): SluiceError {
  return new SluiceError("invalid_request", `resume: ${id}: ${why}.`, { interruptId: id });
}
