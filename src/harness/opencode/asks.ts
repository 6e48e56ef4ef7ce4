import { asText, isRecord, toFields, toRecords } from "../fields.ts";
import type { PermissionMetadata } from "../scribe.ts";
import { own } from "../transcript.ts";
import type { OpencodeReading, Properties } from "./state.ts";
import { toToolName } from "./tools.ts";

/** A permission request of the server. */
export function readPermission(reading: OpencodeReading, ask: Properties): string | undefined {
  const { id, sessionID, permission, patterns, always, tool } = ask;
  if (typeof id !== "string" || typeof permission !== "string") return "a permission without an id";
  const origin = reading.originOf(sessionID);
  if (!origin || !isNew(reading, id)) return undefined;
  const metadata = toFields(ask["metadata"]);
  const call = asText(toFields(tool)["callID"]);
  const name = call === undefined ? undefined : own(reading.scribe.transcript.calls, call)?.name;
  const action = name ?? toToolName(permission, undefined, reading.state.servers);
  const input = (call === undefined ? undefined : own(reading.work.calls, call)?.input) ?? metadata;
  if (call !== undefined && name === undefined) reading.scribe.call(call, { name: action, input, ...origin });
  const asked = {
    action,
    metadata: {
      ...(call === undefined ? {} : { call_id: call }),
      name: action,
      input,
      kind: kindOf(permission, action),
      permission,
      patterns,
      always,
      ...(typeof metadata["diff"] === "string" ? { diff: metadata["diff"] } : {}),
    },
  };
  reading.scribe.askPermission({ kind: "permission", id, permission: asked }, { ...asked, ...origin });
  return undefined;
}

/**
 * Reads the server's report of an answer. A request that we answer is forgotten when the answer is sent. So if the
 * request is still known here, the server answered it itself.
 */
export function readPermissionReply(reading: OpencodeReading, { requestID, reply }: Properties): undefined {
  const [id, { permission } = {}] = reading.scribe.takeAsk((ask) => ask.id === requestID) ?? [];
  if (id === undefined || !permission) return;
  const { action, metadata } = permission;
  const status = reply === "reject" ? "denied" : "approved";
  reading.scribe.add({
    type: "permission.resolved",
    data: { permission_id: id, action, status, metadata: { ...metadata, reply, by: "agent" } },
  });
}

export function readQuestion(
  reading: OpencodeReading,
  { id, sessionID, questions, tool }: Properties,
): string | undefined {
  if (typeof id !== "string" || !Array.isArray(questions)) return "a question without an id";
  const origin = reading.originOf(sessionID);
  if (!origin || !isNew(reading, id)) return undefined;
  const all = questions.filter(isRecord);
  const asked = {
    prompt: all.map((question) => String(question["question"] ?? "")).join("\n"),
    options: all.flatMap(({ options }) => toRecords(options).map(toLabel)),
  };
  const ask = { kind: "question" as const, id, question: { ...asked, count: all.length } };
  const call = isRecord(tool) ? tool["callID"] : undefined;
  const isCalled = typeof call === "string" && reading.scribe.hasCall(call);
  reading.scribe.askQuestion(ask, { ...asked, ...(isCalled ? { parent: call } : origin) });
  return undefined;
}

export function readQuestionReply(reading: OpencodeReading, { requestID, answers }: Properties): undefined {
  const [id, { question } = {}] = reading.scribe.takeAsk((ask) => ask.id === requestID) ?? [];
  if (id === undefined || !question) return;
  const answer = Array.isArray(answers)
    ? { status: "answered" as const, response: answers.flat().join(", ") }
    : { status: "rejected" as const };
  const { prompt, options } = question;
  reading.scribe.add({
    type: "question.resolved",
    data: { question_id: id, prompt, options: [...options], ...answer },
  });
}

function isNew(reading: OpencodeReading, id: string): boolean {
  if (reading.work.asked.includes(id)) return false;
  reading.changeWork({ asked: [...reading.work.asked, id] });
  return true;
}

function toLabel({ label }: Properties): string {
  return String(label ?? "");
}

const KINDS: Readonly<Record<string, PermissionMetadata["kind"]>> = {
  bash: "execute",
  edit: "edit",
  read: "read",
  glob: "read",
  grep: "read",
  list: "read",
  lsp: "read",
  webfetch: "fetch",
  websearch: "fetch",
  codesearch: "fetch",
  plan_enter: "plan",
  plan_exit: "plan",
};

function kindOf(permission: string, action: string): PermissionMetadata["kind"] {
  return own(KINDS, permission) ?? (action.startsWith("mcp__") ? "mcp" : "other");
}
