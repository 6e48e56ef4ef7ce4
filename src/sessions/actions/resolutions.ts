import { parseJsonOr, type EventData, type EventDraft, type PendingAction } from "../../contract/index.ts";

type Resolved<T extends "permission" | "question" | "tool"> = EventData<`${T}.resolved`>;

/** The answer to a permission request. Its `metadata` is that of the request, with the decision. */
export function permissionResolved(
  { id, prompt, metadata }: PendingAction & { readonly metadata?: unknown },
  status: Resolved<"permission">["status"],
  decision: object,
): EventDraft {
  const data = {
    permission_id: id,
    action: prompt,
    status,
    metadata: { ...(metadata as object), ...decision },
  };
  return { type: "permission.resolved", source: "daemon", data };
}

export function questionResolved(
  { id, prompt, options = [] }: PendingAction,
  answer: Pick<Resolved<"question">, "status" | "response">,
): EventDraft {
  const data = { question_id: id, prompt, options, ...answer };
  return { type: "question.resolved", source: "daemon", data };
}

export function toolResolved(
  { id, prompt }: PendingAction,
  result: Omit<Resolved<"tool">, "request_id" | "name">,
): EventDraft {
  return { type: "tool.resolved", source: "daemon", data: { request_id: id, name: prompt, ...result } };
}

/**
 * The answer to a question as the one string that the schema has for it: one choice as it is, several choices as a JSON
 * array, the choices of several questions as an array of arrays. `fromResponse` restores the exact answer.
 */
export function toResponse(answers: readonly (readonly string[])[]): string {
  const [first, ...others] = answers;
  if (others.length > 0) return JSON.stringify(answers);
  return first?.length === 1 ? (first[0] ?? "") : JSON.stringify(first ?? []);
}

export function fromResponse(response: string): string[][] {
  if (!response.startsWith("[")) return [[response]];
  const chosen = parseJsonOr(response, undefined);
  if (areTexts(chosen)) return [chosen];
  if (Array.isArray(chosen) && chosen.every(areTexts)) return chosen;
  // Not JSON: the free text of an answer may start with a bracket.
  return [[response]];
}

function areTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((text) => typeof text === "string");
}
