import type { SpoolLine } from "../../contract/index.ts";
import { asText, defined, isRecord, parseObject, toFields, toNames } from "../fields.ts";
import type { Decoded } from "../port.ts";
import { type Params, type RpcError, type RpcMessage, toRefusal, toRpcMessage } from "../rpc.ts";
import { own, without } from "../transcript.ts";
import { askPermission } from "./asks.ts";
import { type AcpDialect, AcpReading } from "./dialect.ts";
import { noteSent } from "./encode.ts";
import { failHandshake, isHandshake, readHandshake } from "./handshake.ts";
import { childAnchor, endSpeech, MAIN, parentOf, readChunk } from "./messages.ts";
import type { AcpState } from "./state.ts";
import { readTool, toEntries } from "./tools.ts";
import { endPrompt, failPrompt } from "./turns.ts";

/** One line of an ACP agent as facts. Never throws, whatever the bytes. */
export function decodeAcp(dialect: AcpDialect, state: AcpState, line: SpoolLine): Decoded<AcpState> {
  if (line.dir === "in") return { state: noteSent(dialect, state, line), facts: [] };
  if (line.dir !== "out") return { state, facts: [] };
  const reading = new AcpReading(dialect, state);
  const value = parseObject(line);
  const problem = typeof value === "string" ? value : readValue(reading, value);
  if (problem !== undefined) reading.scribe.unparsed(line, problem);
  return reading.decoded();
}

function readValue(reading: AcpReading, value: Params): string | undefined {
  const message = toRpcMessage(value);
  if (!message) return readPrinted(reading, value);
  reading.dialect.before?.(reading, message);
  return readMessage(reading, message);
}

/** A printed line of a mode without a protocol, as recordings have it. */
function readPrinted(reading: AcpReading, value: Params): string | undefined {
  const form = reading.dialect.forms?.find((form) => form.matches(value));
  return form ? form.read(reading, value) : "the line is no JSON-RPC message";
}

function readMessage(reading: AcpReading, message: RpcMessage): string | undefined {
  switch (message.kind) {
    case "notification":
      if (message.method === "session/update") return readUpdate(reading, message.params);
      if (reading.dialect.extension?.(reading, message)) return undefined;
      // `$/…` belongs to the transport, `_…` to extensions that are not ours.
      return /^[$_]/.test(message.method)
        ? undefined
        : `an unknown notification: ${message.method.slice(0, 60)}`;
    case "request":
      return readRequest(reading, message);
    case "result":
      return readResult(reading, message.id, message.result);
    case "error":
      return readRefusal(reading, message.id, message.error);
  }
}

function readRequest(
  reading: AcpReading,
  message: Extract<RpcMessage, { kind: "request" }>,
): string | undefined {
  const { id, method, params } = message;
  if (method === "session/request_permission") {
    const origin = originOf(reading, params);
    endSpeech(reading, origin);
    if (askPermission(reading, id, { params, origin })) return undefined;
    reading.replies.push(toRefusal(id, "invalidParams", "the request could not be read"));
    return "a malformed session/request_permission";
  }
  if (reading.dialect.extension?.(reading, message)) return undefined;
  reading.replies.push(toRefusal(id, "unknownMethod", `${method} is not offered`));
  return /^(fs|terminal)\//.test(method) ? undefined : `an unknown request: ${method.slice(0, 60)}`;
}

function readResult(reading: AcpReading, id: string | number, result: unknown): string | undefined {
  const method = takeSentMethod(reading, id);
  if (method === undefined) return undefined;
  if (method === "session/prompt") endPrompt(reading, String(id), toFields(result));
  if (isHandshake(reading, method)) readHandshake(reading, method, result);
  return undefined;
}

function readRefusal(reading: AcpReading, id: string | number, error: RpcError): string | undefined {
  const method = takeSentMethod(reading, id);
  if (method === undefined) return undefined;
  if (method === "session/prompt") failPrompt(reading, error);
  if (isHandshake(reading, method)) failHandshake(reading, method, error);
  return undefined;
}

/** Takes the method of our request out of the state, so that a second answer to the request is ignored. */
function takeSentMethod(reading: AcpReading, id: string | number): string | undefined {
  const key = String(id);
  const method = own(reading.state.sent, key);
  if (method !== undefined) reading.change({ sent: without(reading.state.sent, key) });
  return method;
}

/** Updates that the log does not need, such as the agent's abilities and settings. */
const NOISE: ReadonlySet<string> = toNames(`
  user_message_chunk available_commands_update current_mode_update config_option_update session_info_update
  compaction_summary_chunk plan_removed subagent_update session_message session_message_chunk
`);

/** Reads a `session/update`. Returns the problem of an unknown or malformed one. */
export function readUpdate(reading: AcpReading, params: Params): string | undefined {
  const { update } = params;
  if (!isRecord(update)) return "a session/update without an update";
  const { sessionUpdate: type } = update;
  if (reading.state.isReplaying || reading.dialect.ignores?.(reading, update)) return undefined;
  const origin = originOf(reading, params);
  const isRead = readKind(reading, { type, update, origin });
  return isRead ? undefined : `a session/update of an unknown kind: ${JSON.stringify(type)?.slice(0, 60)}`;
}

/** The origin of an update: the main agent, or one of its sub-agents. */
export function originOf(reading: AcpReading, params: Params): string {
  const { sessionId } = params;
  if (!reading.dialect.hasChildren || typeof sessionId !== "string") return MAIN;
  if (reading.state.session === undefined || sessionId === reading.state.session) return MAIN;
  return childAnchor(sessionId) in reading.scribe.transcript.calls ? sessionId : MAIN;
}

function readKind(
  reading: AcpReading,
  { type, update, origin }: { type: unknown; update: Params; origin: string },
): boolean {
  switch (type) {
    case "agent_message_chunk":
      return readChunk(reading, update, { kind: "text", origin });
    case "agent_thought_chunk":
      return readChunk(reading, update, { kind: "reasoning", origin });
    case "tool_call":
      return readTool(reading, update, { origin, isUpdate: false });
    case "tool_call_update":
      return readTool(reading, update, { origin, isUpdate: true });
    case "plan":
    case "plan_update":
      return readPlan(reading, update, origin);
    case "usage_update":
      return readCost(reading, update);
    case "notice":
      reading.scribe.status("notice", { detail: noticeOf(update), parent: parentOf(origin) });
      return true;
    case "compaction_update":
      return readCompaction(reading, update, origin);
    default:
      return typeof type === "string" && NOISE.has(type);
  }
}

function readPlan(reading: AcpReading, update: Params, origin: string): boolean {
  const entries = Array.isArray(update["entries"]) ? toEntries(update["entries"]) : undefined;
  if (!entries) return false;
  endSpeech(reading, origin);
  reading.scribe.plan(entries, { parent: parentOf(origin) });
  return true;
}

/** An update has the session's total cost. */
function readCost(reading: AcpReading, { cost }: Params): boolean {
  const amount = isRecord(cost) && cost["currency"] === "USD" ? cost["amount"] : undefined;
  if (typeof amount === "number" && amount > 0) {
    reading.change({ cost: { ...reading.state.cost, total: amount } });
  }
  return true;
}

function readCompaction(reading: AcpReading, { status, summary, trigger }: Params, origin: string): boolean {
  if (status === "in_progress" || status === "pending" || status === "failed") return true;
  endSpeech(reading, origin);
  reading.scribe.compacted(defined({ trigger: asText(trigger), summary: asText(summary) }));
  return true;
}

function noticeOf({ message, text, title }: Params): string {
  return [message, text, title].find((words) => typeof words === "string") ?? "";
}
