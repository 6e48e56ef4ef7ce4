import type { SpoolLine } from "../../contract/index.ts";
import { asText, isRecord, parseObject, toNames } from "../fields.ts";
import type { Decoded } from "../port.ts";
import { type Params, toRpcMessage } from "../rpc.ts";
import { LineReading } from "../scribe.ts";
import { readRequest, readResolved } from "./asks.ts";
import { noteSent } from "./encode.ts";
import { readExecLine } from "./forms.ts";
import { readRefusal, readResult } from "./handshake.ts";
import { addPart, addText, endItem, startItem } from "./items.ts";
import { type CodexState, originOf, type Reading } from "./state.ts";
import { readRawItem } from "./tools.ts";
import { countTokens, endTurn, readError, startTurn, updatePlan } from "./turns.ts";

/** One line of Codex as facts: of the app-server, or of `codex exec --json`. Never throws, whatever the bytes. */
export function decode(state: CodexState, line: SpoolLine): Decoded<CodexState> {
  if (line.dir === "in") return { state: noteSent(state, line), facts: [] };
  if (line.dir !== "out") return { state, facts: [] };
  const reading: Reading = new LineReading(state);
  const value = parseObject(line);
  const problem = typeof value === "string" ? value : readMessage(reading, value);
  if (problem !== undefined) reading.scribe.unparsed(line, problem);
  return reading.decoded();
}

/** Returns the problem of an unknown or malformed message. */
function readMessage(reading: Reading, value: Readonly<Record<string, unknown>>): string | undefined {
  const message = toRpcMessage(value);
  if (message === undefined)
    return typeof value["type"] === "string" ? readExecLine(reading, value) : "no message of Codex";
  switch (message.kind) {
    case "notification":
      return readNotification(reading, message.method, message.params);
    case "request":
      if (readRequest(reading, message.id, message.method, message.params)) return undefined;
      return `an unknown request ${message.method}`;
    case "result":
      return readResult(reading, message.id, message.result) ? undefined : UNASKED;
    case "error":
      return readRefusal(reading, message.id, message.error) ? undefined : UNASKED;
  }
}

const UNASKED = "an answer without a request of ours";

/** Reads a notification. Returns the problem of an unknown or malformed one. */
export function readNotification(reading: Reading, method: string, params: Params): string | undefined {
  switch (method) {
    case "item/agentMessage/delta":
    case "item/plan/delta":
      return problemUnless(addText(reading, params, "text"), method);
    case "item/reasoning/summaryTextDelta":
    case "item/reasoning/textDelta":
      return problemUnless(addText(reading, params, "reasoning"), method);
    case "item/reasoning/summaryPartAdded":
      return problemUnless(addPart(reading, params), method);
    case "item/commandExecution/outputDelta":
    case "item/fileChange/outputDelta":
      return addOutput(reading, params, method);
    case "item/mcpToolCall/progress":
      return addProgress(reading, params);
    case "item/started":
      return withItem(params, (item) => startItem(reading, item, asText(params["threadId"])));
    case "item/completed":
      return withItem(params, (item) =>
        endItem(reading, item, { thread: asText(params["threadId"]), turn: asText(params["turnId"]) }),
      );
    case "rawResponseItem/completed":
      return void readRawItem(reading, params);
    case "turn/started":
      return void startTurn(reading, params);
    case "turn/completed":
      return void endTurn(reading, params);
    case "turn/plan/updated":
      return problemUnless(updatePlan(reading, params), method);
    case "thread/tokenUsage/updated":
      return void countTokens(reading, params);
    case "serverRequest/resolved":
      return void readResolved(reading, params);
    case "error":
      return void readError(reading, params);
    case "mcpServer/startupStatus/updated":
      return void readServerStatus(reading, params);
    case "warning":
    case "guardianWarning":
    case "configWarning":
      return void warn(reading, params);
    case "model/rerouted":
      return void reroute(reading, params);
    default:
      return SILENT.has(method) ? undefined : `an unknown notification ${method}`;
  }
}

function problemUnless(isRead: boolean, method: string): string | undefined {
  return isRead ? undefined : `a malformed ${method}`;
}

function withItem(params: Params, read: (item: Params) => string | undefined): string | undefined {
  const { item } = params;
  return isRecord(item) ? read(item) : "an item notification without an item";
}

function addOutput({ scribe }: Reading, { itemId, delta }: Params, method: string): string | undefined {
  if (typeof itemId !== "string" || typeof delta !== "string") return `a malformed ${method}`;
  // A command may outlive its turn. Its result is then closed, and the output is dropped.
  scribe.output(itemId, delta);
  return undefined;
}

function addProgress({ scribe }: Reading, { itemId, message }: Params): undefined {
  if (typeof itemId === "string" && typeof message === "string") scribe.output(itemId, `${message}\n`);
}

function readServerStatus(reading: Reading, { name, status, error }: Params): void {
  if (status !== "failed") return;
  const why = typeof error === "string" ? error : "it could not be started";
  const message = `the MCP server "${String(name)}" is not there: ${why}`;
  // Only the text shows whether the login or the connection failed.
  const isRefused = /\b401\b|unauthorized|auth(entication|orization)? (is )?required|not logged in/i.test(
    why,
  );
  const code = isRefused ? "mcp_authentication_failed" : "mcp_connection_failed";
  reading.scribe.error({ code, message }, { details: { server: String(name) } });
}

function warn(reading: Reading, params: Params): void {
  const { message, summary, threadId } = params;
  const detail = asText(message) ?? asText(summary);
  if (reading.state.prompted)
    reading.scribe.status("warning", { detail, ...originOf(reading, asText(threadId)) });
}

function reroute(reading: Reading, { toModel, threadId, reason }: Params): void {
  const detail = `${String(toModel)}: ${typeof reason === "string" ? reason : JSON.stringify(reason)}`;
  if (reading.state.prompted)
    reading.scribe.status("model changed", { detail, ...originOf(reading, asText(threadId)) });
}

/**
 * Notifications that the log does not need: names, queues, limits, files, reviews. The conversation itself is in the
 * items. Voice (`thread/realtime/`) is never switched on.
 */
const SILENT: ReadonlySet<string> = toNames(`
  thread/started thread/status/changed thread/readState/changed thread/archived thread/deleted
  thread/unarchived thread/closed thread/reverted thread/name/updated thread/attachment/updated
  thread/goal/updated thread/goal/cleared thread/prediction/updated thread/queue/changed
  thread/project/updated thread/environment/connected thread/environment/disconnected thread/settings/updated
  thread/compacted turn/diff/updated turn/moderationMetadata item/autoApprovalReview/started
  item/autoApprovalReview/completed autoApprovalReview/strictReviewRequired
  item/commandExecution/terminalInteraction item/fileChange/patchUpdated rawResponse/completed
  command/exec/outputDelta process/outputDelta process/exited mcpServer/oauthLogin/completed
  mcpServer/event/stream/notification model/verification model/safetyBuffering/updated
  modelProvider/authRecoveryStarted modelProvider/authRecoveryCompleted account/updated
  account/login/completed account/gatewayOAuth/changed account/rateLimits/updated app/list/updated
  project/changed skills/changed remoteControl/status/changed externalAgentConfig/import/progress
  externalAgentConfig/import/completed fs/changed hook/started hook/completed fuzzyFileSearch/sessionUpdated
  fuzzyFileSearch/sessionCompleted windows/worldWritableWarning windowsSandbox/setupCompleted
  deprecationNotice
`);
