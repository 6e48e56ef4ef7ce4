import { isRecord, type Params, type RpcId } from "../rpc.ts";
import type { PermissionMetadata } from "../scribe.ts";
import { own } from "../transcript.ts";
import { type Asker, askPermission, askQuestion, refuseOutsideTurn } from "./ask.ts";
import { askForServer } from "./elicitation.ts";
import { ensureModel, placeOf, type Reading, say } from "./reading.ts";
import type { AskedPermission } from "./state.ts";
import { asThread } from "./texts.ts";

/** A request of Codex to us. False where we have no words for it: it is refused, since Codex waits. */
export function hearRequest(reading: Reading, id: RpcId, method: string, params: Params): boolean {
  const thread = asThread(params["threadId"]) ?? reading.state.thread ?? "";
  if (reading.state.prompted) ensureModel(reading, thread);
  switch (method) {
    case "item/commandExecution/requestApproval":
      return askForCommand(reading, { id, thread }, params);
    case "item/fileChange/requestApproval":
      return askForPatch(reading, { id, thread }, params);
    case "item/permissions/requestApproval":
      return askForGrant(reading, { id, thread }, params);
    case "mcpServer/elicitation/request":
      return askForServer(reading, { id, thread }, params);
    case "item/tool/requestUserInput":
      return askQuestions(reading, { id, thread }, params);
    case "item/tool/call":
      return askForTool(reading, { id, thread }, params);
    default:
      reading.replies.push(say({ id, error: { code: -32601, message: `${method} is not supported` } }));
      return false;
  }
}

/** Codex does not wait for the answer any more; where nobody gave one, it took the question back. */
export function hearResolved(reading: Reading, params: Params): void {
  const { scribe } = reading;
  const found = scribe.findAsk((ask) => ask.kind !== "plan" && ask.id === params["requestId"]);
  const ask = found === undefined ? undefined : own(scribe.transcript.asks, found);
  if (found === undefined || ask === undefined || ask.kind === "plan") return;
  const place = placeOf(reading, ask.thread);
  scribe.forgetAsk(found);
  if (ask.kind === "tool") {
    const data = {
      request_id: found,
      name: ask.name,
      status: "cancelled" as const,
      content: [],
      by: "agent",
    };
    return scribe.add({ type: "tool.resolved", data }, place);
  }
  if ("prompt" in ask) {
    const { prompt, options } = ask.prompt;
    const data = { question_id: found, prompt, options: [...options], status: "rejected" as const };
    return scribe.add({ type: "question.resolved", data }, place);
  }
  const { action, metadata } = ask.permission;
  const data = {
    permission_id: found,
    action,
    status: "denied" as const,
    metadata: { ...metadata, by: "agent" },
  };
  scribe.add({ type: "permission.resolved", data }, place);
}

function askForCommand(reading: Reading, asker: Asker, params: Params): boolean {
  const { itemId, command, cwd, reason, commandActions, networkApprovalContext: network } = params;
  const name = "exec_command";
  const input = { command, ...(typeof cwd === "string" ? { cwd } : {}) };
  const call = typeof itemId === "string" ? itemId : `ask:${asker.id}`;
  if (!reading.scribe.hasCall(call))
    reading.scribe.call(call, { name, input, ...placeOf(reading, asker.thread) });
  const metadata: PermissionMetadata = {
    call_id: call,
    name,
    input,
    kind: network == null ? "execute" : "fetch",
    ...(typeof reason === "string" ? { reason } : {}),
    ...(commandActions == null ? {} : { actions: commandActions }),
    ...(network == null ? {} : { network }),
    ...suggestions(params),
  };
  return askPermission(reading, { kind: "decision", ...asker, permission: { action: name, metadata } });
}

function suggestions({ proposedExecpolicyAmendment: proposed }: Params): Params {
  return proposed == null ? {} : { suggestions: [{ execpolicy_amendment: proposed }] };
}

function askForPatch(reading: Reading, asker: Asker, params: Params): boolean {
  const { itemId, reason, grantRoot } = params;
  const name = "apply_patch";
  const call = typeof itemId === "string" ? itemId : `ask:${asker.id}`;
  const input = own(reading.state.calls, call)?.input ?? {};
  if (!reading.scribe.hasCall(call))
    reading.scribe.call(call, { name, input, ...placeOf(reading, asker.thread) });
  const metadata: PermissionMetadata = {
    call_id: call,
    name,
    input,
    kind: "edit",
    ...(typeof reason === "string" ? { reason } : {}),
    ...(typeof grantRoot === "string" ? { grant_root: grantRoot } : {}),
  };
  return askPermission(reading, { kind: "decision", ...asker, permission: { action: name, metadata } });
}

function askForGrant(reading: Reading, asker: Asker, params: Params): boolean {
  const name = "request_permissions";
  const permissions = isRecord(params["permissions"]) ? params["permissions"] : {};
  const input = { permissions, reason: params["reason"] ?? null };
  const permission: AskedPermission = { action: name, metadata: { name, input, kind: "other" } };
  return askPermission(reading, { kind: "grant", ...asker, permission, permissions });
}

function askQuestions(reading: Reading, asker: Asker, params: Params): boolean {
  const questions = (Array.isArray(params["questions"]) ? params["questions"] : []).filter(isRecord);
  const options = questions.flatMap((question) =>
    (Array.isArray(question["options"]) ? question["options"] : [])
      .filter(isRecord)
      .map((option) => String(option["label"] ?? "")),
  );
  const prompt = {
    prompt: questions.map((question) => String(question["question"] ?? "")).join("\n"),
    options,
  };
  const names = questions.map((question) => String(question["id"] ?? ""));
  return askQuestion(reading, { kind: "question", ...asker, prompt, questions: names });
}

function askForTool(reading: Reading, asker: Asker, params: Params): boolean {
  const { callId, tool, arguments: input } = params;
  const name = String(tool ?? "");
  const place = placeOf(reading, asker.thread);
  const call = typeof callId === "string" ? callId : `ask:${asker.id}`;
  if (!reading.scribe.hasCall(call)) reading.scribe.call(call, { name, input: input ?? {}, ...place });
  if (refuseOutsideTurn(reading, { kind: "tool", ...asker, name })) return true;
  reading.scribe.askTool(
    { kind: "tool", ...asker, name },
    { name, input: input ?? {}, callId: call, ...place },
  );
  return true;
}
