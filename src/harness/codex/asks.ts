import { asText, defined, isRecord, toFields, toRecords } from "../fields.ts";
import type { Params, RpcId } from "../rpc.ts";
import type { PermissionMetadata } from "../scribe.ts";
import { own } from "../transcript.ts";
import { declineLine } from "./answers.ts";
import {
  type AskedPermission,
  type AskOfCodex,
  ensureModel,
  isMain,
  originOf,
  type Reading,
  toLine,
} from "./state.ts";

/** A request of Codex. False for an unknown one, which is refused, since Codex waits for an answer. */
export function readRequest(reading: Reading, id: RpcId, method: string, params: Params): boolean {
  const thread = asText(params["threadId"]) ?? reading.state.thread ?? "";
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
      reading.replies.push(toLine({ id, error: { code: -32601, message: `${method} is not supported` } }));
      return false;
  }
}

/** Codex no longer waits for an answer. If none was given, Codex has withdrawn the request. */
export function readResolved(reading: Reading, params: Params): void {
  const { scribe } = reading;
  const [id, ask] = scribe.takeAsk((ask) => ask.kind !== "plan" && ask.id === params["requestId"]) ?? [];
  if (id === undefined || ask === undefined || ask.kind === "plan") return;
  const origin = originOf(reading, ask.thread);
  if (ask.kind === "tool") {
    const { name } = ask;
    const data = { request_id: id, name, status: "cancelled" as const, content: [], by: "agent" };
    return scribe.add({ type: "tool.resolved", data }, origin);
  }
  if ("prompt" in ask) {
    const { prompt, options } = ask.prompt;
    const data = { question_id: id, prompt, options: [...options], status: "rejected" as const };
    return scribe.add({ type: "question.resolved", data }, origin);
  }
  const { action, metadata } = ask.permission;
  const denied = { permission_id: id, action, status: "denied" as const };
  const data = { ...denied, metadata: { ...metadata, by: "agent" } };
  scribe.add({ type: "permission.resolved", data }, origin);
}

function askForCommand(reading: Reading, asker: Asker, params: Params): boolean {
  const { itemId, command, cwd, reason, commandActions } = params;
  const { networkApprovalContext: network, proposedExecpolicyAmendment: proposed } = params;
  const name = "exec_command";
  const input = { command, ...defined({ cwd: asText(cwd) }) };
  const metadata: PermissionMetadata = {
    call_id: ensureCall(reading, asker, { id: itemId, name, input }),
    name,
    input,
    kind: network == null ? "execute" : "fetch",
    ...defined({
      reason: asText(reason),
      actions: commandActions ?? undefined,
      network: network ?? undefined,
      suggestions: proposed == null ? undefined : [{ execpolicy_amendment: proposed }],
    }),
  };
  return askPermission(reading, { kind: "decision", ...asker, permission: { action: name, metadata } });
}

function askForPatch(reading: Reading, asker: Asker, params: Params): boolean {
  const { itemId, reason, grantRoot } = params;
  const name = "apply_patch";
  const input = own(reading.state.calls, String(itemId))?.input ?? {};
  const metadata: PermissionMetadata = {
    call_id: ensureCall(reading, asker, { id: itemId, name, input }),
    name,
    input,
    kind: "edit",
    ...defined({ reason: asText(reason), grant_root: asText(grantRoot) }),
  };
  return askPermission(reading, { kind: "decision", ...asker, permission: { action: name, metadata } });
}

function askForGrant(reading: Reading, asker: Asker, params: Params): boolean {
  const name = "request_permissions";
  const permissions = toFields(params["permissions"]);
  const input = { permissions, reason: params["reason"] ?? null };
  const permission: AskedPermission = { action: name, metadata: { name, input, kind: "other" } };
  return askPermission(reading, { kind: "grant", ...asker, permission, permissions });
}

function askQuestions(reading: Reading, asker: Asker, params: Params): boolean {
  const questions = toRecords(params["questions"]);
  const options = questions.flatMap((question) =>
    toRecords(question["options"]).map((option) => String(option["label"] ?? "")),
  );
  const prompt = {
    prompt: questions.map((question) => String(question["question"] ?? "")).join("\n"),
    options,
  };
  const names = questions.map((question) => String(question["id"] ?? ""));
  return askQuestion(reading, { kind: "question", ...asker, prompt, questions: names });
}

function askForTool(reading: Reading, asker: Asker, params: Params): boolean {
  const { callId: id, tool } = params;
  const name = String(tool ?? "");
  const input = params["arguments"] ?? {};
  const callId = ensureCall(reading, asker, { id, name, input });
  const ask: AskOfCodex = { kind: "tool", ...asker, name };
  if (refuseOutsideTurn(reading, ask)) return true;
  reading.scribe.askTool(ask, { name, input, callId, ...originOf(reading, asker.thread) });
  return true;
}

/** Reports the call of a request, unless it is known. Returns the call's id, or one made from the request's id. */
function ensureCall(
  reading: Reading,
  asker: Asker,
  { id, name, input }: { id: unknown; name: string; input: unknown },
): string {
  const call = typeof id === "string" ? id : `ask:${asker.id}`;
  if (!reading.scribe.hasCall(call))
    reading.scribe.call(call, { name, input, ...originOf(reading, asker.thread) });
  return call;
}

/** The id and the thread of a request. */
interface Asker {
  readonly id: RpcId;
  readonly thread: string;
}

type PermissionAsk = Extract<AskOfCodex, { permission: AskedPermission }>;

export function askPermission(reading: Reading, asked: PermissionAsk): boolean {
  if (refuseOutsideTurn(reading, asked)) return true;
  reading.scribe.askPermission(asked, { ...asked.permission, ...originOf(reading, asked.thread) });
  return true;
}

function askQuestion(reading: Reading, asked: Extract<AskOfCodex, { prompt: unknown }>): boolean {
  if (refuseOutsideTurn(reading, asked)) return true;
  reading.scribe.askQuestion(asked, { ...asked.prompt, ...originOf(reading, asked.thread) });
  return true;
}

/**
 * Refuses a sub-agent's request outside of a turn, because only a running turn can get an answer. Returns false
 * otherwise.
 */
function refuseOutsideTurn(reading: Reading, asked: AskOfCodex): boolean {
  if (reading.state.prompted || isMain(reading, asked.thread)) return false;
  reading.replies.push(declineLine(asked));
  const message = "a sub-agent asked for something when its turn had ended, and was refused";
  reading.scribe.error({ code: "permission_denied", message }, originOf(reading, asked.thread));
  return true;
}

/** An elicitation of an MCP server: usually Codex's own request for a tool's permission, sometimes a form. */
function askForServer(reading: Reading, asker: Asker, params: Params): boolean {
  const { serverName, message, requestedSchema: schema, _meta: meta, url } = params;
  const properties = Object.entries(toFields(toFields(schema)["properties"]));
  if (properties.length > 0) return askForForm(reading, asker, String(message ?? ""), properties);
  const known = openCall(reading, asker.thread, params);
  const name = known?.name ?? `mcp__${String(serverName)}`;
  const metadata: PermissionMetadata = {
    ...(known === undefined ? {} : { call_id: known.id }),
    name,
    input: known?.input ?? toFields(meta)["tool_params"] ?? {},
    kind: "mcp",
    ...defined({ reason: asText(message), url: asText(url) }),
  };
  return askPermission(reading, { kind: "elicitation", ...asker, permission: { action: name, metadata } });
}

/** Finds the call of a request. The request names the server and quotes the tool's name, but has no call id. */
function openCall(
  { state }: Reading,
  thread: string,
  params: Params,
): { id: string; name: string; input: unknown } | undefined {
  const prefix = `mcp__${String(params["serverName"])}__`;
  const meta = toFields(params["_meta"]);
  const wanted = JSON.stringify(meta["tool_params"]);
  const open = Object.entries(state.calls)
    .filter(([, call]) => call.name.startsWith(prefix) && call.thread === thread)
    .map(([id, { name, input }]) => ({ id, name, input }));
  const quoted = (call: { name: string }): boolean =>
    String(params["message"] ?? "").includes(`"${call.name.slice(prefix.length)}"`);
  const exact = open.findLast((call) => quoted(call) && JSON.stringify(call.input) === wanted);
  return exact ?? open.findLast(quoted) ?? open.at(-1);
}

function askForForm(
  reading: Reading,
  asker: Asker,
  message: string,
  properties: [string, unknown][],
): boolean {
  const fields = properties.map(([name, schema]) => ({
    name,
    type: isRecord(schema) && typeof schema["type"] === "string" ? schema["type"] : "string",
  }));
  const titles = properties.map(([name, schema]) =>
    isRecord(schema) && typeof schema["title"] === "string" ? schema["title"] : name,
  );
  const options = properties.flatMap(([, schema]) =>
    isRecord(schema) && Array.isArray(schema["enum"]) ? schema["enum"].map(String) : [],
  );
  const prompt = { prompt: [message, ...titles].join("\n"), options };
  return askQuestion(reading, { kind: "form", ...asker, prompt, fields });
}
