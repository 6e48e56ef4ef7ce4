import { isRecord, type Params } from "../rpc.ts";
import { hearResolved } from "./asks.ts";
import { endItem, startItem } from "./items.ts";
import { updatePlan } from "./plan.ts";
import { placeOf, type Reading } from "./reading.ts";
import { hearRawItem } from "./refused.ts";
import { SILENT } from "./silent.ts";
import { addPart, addText, asThread } from "./texts.ts";
import { countTokens } from "./tokens.ts";
import { endTurn, hearError, startTurn } from "./turns.ts";

/** A notification of Codex. Undefined when it was understood or is known to say nothing, else why it was not. */
export function hearNotification(reading: Reading, method: string, params: Params): string | undefined {
  switch (method) {
    case "item/agentMessage/delta":
    case "item/plan/delta":
      return unless(addText(reading, params, "text"), method);
    case "item/reasoning/summaryTextDelta":
    case "item/reasoning/textDelta":
      return unless(addText(reading, params, "reasoning"), method);
    case "item/reasoning/summaryPartAdded":
      return unless(addPart(reading, params), method);
    case "item/commandExecution/outputDelta":
    case "item/fileChange/outputDelta":
      return addOutput(reading, params, method);
    case "item/mcpToolCall/progress":
      return addProgress(reading, params);
    case "item/started":
      return withItem(params, (item) => startItem(reading, item, asThread(params["threadId"])));
    case "item/completed":
      return withItem(params, (item) => endItem(reading, item, asThread(params["threadId"])));
    case "rawResponseItem/completed":
      return void hearRawItem(reading, params);
    case "turn/started":
      return void startTurn(reading, params);
    case "turn/completed":
      return void endTurn(reading, params);
    case "turn/plan/updated":
      return unless(updatePlan(reading, params), method);
    case "thread/tokenUsage/updated":
      return void countTokens(reading, params);
    case "serverRequest/resolved":
      return void hearResolved(reading, params);
    case "error":
      return void hearError(reading, params);
    case "mcpServer/startupStatus/updated":
      return void hearServer(reading, params);
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

function unless(understood: boolean, method: string): string | undefined {
  return understood ? undefined : `a malformed ${method}`;
}

function withItem(params: Params, hear: (item: Params) => string | undefined): string | undefined {
  const { item } = params;
  return isRecord(item) ? hear(item) : "an item notification without an item";
}

function addOutput({ scribe }: Reading, { itemId, delta }: Params, method: string): string | undefined {
  if (typeof itemId !== "string" || typeof delta !== "string") return `a malformed ${method}`;
  // A command may outlive its turn; its result is closed by then.
  scribe.output(itemId, delta);
  return undefined;
}

function addProgress({ scribe }: Reading, { itemId, message }: Params): undefined {
  if (typeof itemId === "string" && typeof message === "string") scribe.output(itemId, `${message}\n`);
}

function hearServer(reading: Reading, { name, status, error }: Params): void {
  if (status !== "failed") return;
  const why = typeof error === "string" ? error : "it could not be started";
  const message = `the MCP server "${String(name)}" is not there: ${why}`;
  // Its own words are all that tells them apart.
  const isRefused = /\b401\b|unauthorized|auth(entication|orization)? (is )?required|not logged in/i.test(
    why,
  );
  const code = isRefused ? "mcp_authentication_failed" : "mcp_connection_failed";
  reading.scribe.add({ type: "error", data: { code, message, details: { server: String(name) } } });
}

function warn(reading: Reading, params: Params): void {
  const { message, summary, threadId } = params;
  const detail = typeof message === "string" ? message : typeof summary === "string" ? summary : undefined;
  if (reading.state.prompted)
    reading.scribe.status("warning", { detail, ...placeOf(reading, asThread(threadId)) });
}

function reroute(reading: Reading, { toModel, threadId, reason }: Params): void {
  const detail = `${String(toModel)}: ${typeof reason === "string" ? reason : JSON.stringify(reason)}`;
  if (reading.state.prompted)
    reading.scribe.status("model changed", { detail, ...placeOf(reading, asThread(threadId)) });
}
