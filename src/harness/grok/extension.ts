import type { Hand } from "../acp/hand.ts";
import { endSpeech, parentOf } from "../acp/speech.ts";
import type { AcpState } from "../acp/state.ts";
import { settleTool } from "../acp/tools.ts";
import { placeOf } from "../acp/updates.ts";
import { isRecord, type Params, type RpcId, type RpcMessage } from "../rpc.ts";
import { own } from "../transcript.ts";
import { hearNotification } from "./notification.ts";

const CONNECTED = "connected";

/** A prompt that comes before its MCP servers do finds none of their tools. It tells of those that fail, too. */
export function awaitsServers({ servers, aside }: AcpState): boolean {
  return servers.length > 0 && aside[CONNECTED] === undefined;
}

/** Everything under `_x.ai/`. */
export function hearExtension(hand: Hand, message: Extract<RpcMessage, { method: string }>): boolean {
  const { method, params } = message;
  if (message.kind === "notification") {
    if (!method.startsWith("_x.ai/")) return false;
    // What it reports of its queue, its set-up and its MCP servers changes nothing in a log.
    if (method === "_x.ai/session_notification") hearNotification(hand, params);
    if (method === "_x.ai/mcp_initialized") hand.note({ aside: { ...hand.state.aside, [CONNECTED]: "yes" } });
    return true;
  }
  if (method === "_x.ai/ask_user_question") return askQuestions(hand, message.id, params);
  if (method === "_x.ai/exit_plan_mode") return askPlan(hand, message.id, params);
  return false;
}

function askQuestions(hand: Hand, rpc: RpcId, params: Params): boolean {
  const { questions, toolCallId } = params;
  if (!Array.isArray(questions)) return false;
  const place = placeOf(hand, params);
  const asked = questions.filter(isRecord);
  const prompts = asked.map(({ question }) => String(question));
  const options = asked.flatMap(({ options }) => (Array.isArray(options) ? options.filter(isRecord) : []));
  endSpeech(hand, place);
  if (typeof toolCallId === "string") settleTool(hand, toolCallId, place);
  hand.scribe.askQuestion(
    { rpc, kind: "question", questions: prompts, ...callOf(toolCallId) },
    {
      prompt: prompts.join("\n"),
      options: options.map(({ label }) => String(label)),
      parent: typeof toolCallId === "string" ? toolCallId : parentOf(place),
    },
  );
  return true;
}

/** A plan is approved like a call; the plan itself stands in the request. */
function askPlan(hand: Hand, rpc: RpcId, params: Params): boolean {
  const { toolCallId, planContent } = params;
  if (typeof toolCallId !== "string") return false;
  const place = placeOf(hand, params);
  endSpeech(hand, place);
  settleTool(hand, toolCallId, place);
  const name = own(hand.state.tools, toolCallId)?.name ?? "exit_plan_mode";
  const plan = typeof planContent === "string" ? planContent : "";
  hand.scribe.askPermission(
    { rpc, kind: "plan", call: toolCallId },
    {
      action: name,
      metadata: { call_id: toolCallId, name, input: { plan }, kind: "plan", plan },
      parent: parentOf(place),
    },
  );
  return true;
}

function callOf(call: unknown): { call?: string } {
  return typeof call === "string" ? { call } : {};
}
