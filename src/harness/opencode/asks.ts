import { isRecord } from "../rpc.ts";
import type { PermissionMetadata } from "../scribe.ts";
import { own } from "../transcript.ts";
import type { Properties } from "./events.ts";
import type { Page } from "./page.ts";
import type { Ask } from "./state.ts";
import { toToolName } from "./tool-name.ts";

/** The server asks whether a tool may do something. */
export function readPermission(page: Page, ask: Properties): string | undefined {
  const { id, sessionID, permission, patterns, always, tool } = ask;
  if (typeof id !== "string" || typeof permission !== "string") return "a permission without an id";
  const place = page.placeOf(sessionID);
  if (!place || !isNew(page, id)) return undefined;
  const metadata = isRecord(ask["metadata"]) ? ask["metadata"] : {};
  const call = isRecord(tool) && typeof tool["callID"] === "string" ? tool["callID"] : undefined;
  const name = call === undefined ? undefined : own(page.scribe.transcript.calls, call)?.name;
  const action = name ?? toToolName(permission, undefined, page.state.servers);
  const input = (call === undefined ? undefined : own(page.work.calls, call)?.input) ?? metadata;
  if (call !== undefined && name === undefined) page.scribe.call(call, { name: action, input, ...place });
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
  page.scribe.askPermission({ kind: "permission", id, permission: asked }, { ...asked, ...place });
  return undefined;
}

/** What was answered by us is forgotten when it is sent; the rest the server has settled itself. */
export function readPermissionReply(page: Page, { requestID, reply }: Properties): undefined {
  const [id, { permission } = {}] = take(page, requestID);
  if (id === undefined || !permission) return;
  const { action, metadata } = permission;
  const status = reply === "reject" ? "denied" : "approved";
  page.scribe.add({
    type: "permission.resolved",
    data: { permission_id: id, action, status, metadata: { ...metadata, reply, by: "agent" } },
  });
}

export function readQuestion(page: Page, { id, sessionID, questions, tool }: Properties): string | undefined {
  if (typeof id !== "string" || !Array.isArray(questions)) return "a question without an id";
  const place = page.placeOf(sessionID);
  if (!place || !isNew(page, id)) return undefined;
  const all = questions.filter(isRecord);
  const asked = {
    prompt: all.map((question) => String(question["question"] ?? "")).join("\n"),
    options: all.flatMap(({ options }) =>
      (Array.isArray(options) ? options.filter(isRecord) : []).map(toLabel),
    ),
  };
  const ask = { kind: "question" as const, id, question: { ...asked, count: all.length } };
  const call = isRecord(tool) ? tool["callID"] : undefined;
  const isCalled = typeof call === "string" && page.scribe.hasCall(call);
  page.scribe.askQuestion(ask, { ...asked, ...(isCalled ? { parent: call } : place) });
  return undefined;
}

export function readQuestionReply(page: Page, { requestID, answers }: Properties): undefined {
  const [id, { question } = {}] = take(page, requestID);
  if (id === undefined || !question) return;
  const answer = Array.isArray(answers)
    ? { status: "answered" as const, response: answers.flat().join(", ") }
    : { status: "rejected" as const };
  const { prompt, options } = question;
  page.scribe.add({
    type: "question.resolved",
    data: { question_id: id, prompt, options: [...options], ...answer },
  });
}

function take(page: Page, native: unknown): [string, Ask] | [] {
  const id = page.scribe.findAsk((ask) => ask.id === native);
  const ask = id === undefined ? undefined : page.scribe.transcript.asks[id];
  if (id === undefined || !ask) return [];
  page.scribe.forgetAsk(id);
  return [id, ask];
}

function isNew(page: Page, id: string): boolean {
  if (page.work.asked.includes(id)) return false;
  page.setWork({ asked: [...page.work.asked, id] });
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
