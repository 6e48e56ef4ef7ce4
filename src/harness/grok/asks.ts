import type { AcpState, AcpAsk } from "../acp/state.ts";
import { endSpeech, parentOf } from "../acp/messages.ts";
import { settleTool } from "../acp/tools.ts";
import { originOf } from "../acp/decode.ts";
import { isRecord } from "../fields.ts";
import type { Params, RpcId, RpcMessage } from "../rpc.ts";
import { own } from "../transcript.ts";
import { readNotification } from "./notifications.ts";
import type { AcpReading, Answer, AnswerBody } from "../acp/dialect.ts";

const CONNECTED = "connected";

/** A prompt before the MCP servers are connected would find none of their tools. Grok reports failed servers too. */
export function awaitsServers({ servers, aside }: AcpState): boolean {
  return servers.length > 0 && aside[CONNECTED] === undefined;
}

/** Requests and notifications under `_x.ai/`. */
export function readExtension(
  reading: AcpReading,
  message: Extract<RpcMessage, { method: string }>,
): boolean {
  const { method, params } = message;
  if (message.kind === "notification") {
    if (!method.startsWith("_x.ai/")) return false;
    // The log needs no reports of the queue, the set-up and the MCP servers.
    if (method === "_x.ai/session_notification") readNotification(reading, params);
    if (method === "_x.ai/mcp_initialized")
      reading.change({ aside: { ...reading.state.aside, [CONNECTED]: "yes" } });
    return true;
  }
  if (method === "_x.ai/ask_user_question") return askQuestions(reading, message.id, params);
  if (method === "_x.ai/exit_plan_mode") return askPlan(reading, message.id, params);
  return false;
}

function askQuestions(reading: AcpReading, rpc: RpcId, params: Params): boolean {
  const { questions, toolCallId } = params;
  if (!Array.isArray(questions)) return false;
  const origin = originOf(reading, params);
  const asked = questions.filter(isRecord);
  const prompts = asked.map(({ question }) => String(question));
  const options = asked.flatMap(({ options }) => (Array.isArray(options) ? options.filter(isRecord) : []));
  endSpeech(reading, origin);
  if (typeof toolCallId === "string") settleTool(reading, toolCallId, origin);
  reading.scribe.askQuestion(
    { rpc, kind: "question", questions: prompts, ...callOf(toolCallId) },
    {
      prompt: prompts.join("\n"),
      options: options.map(({ label }) => String(label)),
      parent: typeof toolCallId === "string" ? toolCallId : parentOf(origin),
    },
  );
  return true;
}

/** A plan is approved like a call. The request has the plan itself. */
function askPlan(reading: AcpReading, rpc: RpcId, params: Params): boolean {
  const { toolCallId, planContent } = params;
  if (typeof toolCallId !== "string") return false;
  const origin = originOf(reading, params);
  endSpeech(reading, origin);
  settleTool(reading, toolCallId, origin);
  const name = own(reading.state.tools, toolCallId)?.name ?? "exit_plan_mode";
  const plan = typeof planContent === "string" ? planContent : "";
  reading.scribe.askPermission(
    { rpc, kind: "plan", call: toolCallId },
    {
      action: name,
      metadata: { call_id: toolCallId, name, input: { plan }, kind: "plan", plan },
      parent: parentOf(origin),
    },
  );
  return true;
}

function callOf(call: unknown): { call?: string } {
  return typeof call === "string" ? { call } : {};
}

/** The results for `_x.ai/ask_user_question` and `_x.ai/exit_plan_mode`. */
export function answerGrok(ask: AcpAsk, command: Answer): unknown {
  if (ask.kind === "plan" && command.type === "permission") {
    if (command.reply !== "reject") return { outcome: "approved" };
    return { outcome: "rejected", ...(command.message === undefined ? {} : { feedback: command.message }) };
  }
  if (ask.kind !== "question" || command.type !== "question") return undefined;
  const { answers } = command;
  if (answers === undefined) return { outcome: "cancelled" };
  const questions = ask.questions ?? [];
  return {
    outcome: "accepted",
    answers: Object.fromEntries(questions.map((question, index) => [question, [...(answers[index] ?? [])]])),
  };
}

export function fromGrokAnswer(ask: AcpAsk, { outcome, answers, feedback }: Params): AnswerBody | undefined {
  if (ask.kind === "plan") {
    if (outcome === "approved") return { type: "permission", reply: "once" };
    return {
      type: "permission",
      reply: "reject",
      ...(typeof feedback === "string" ? { message: feedback } : {}),
    };
  }
  if (outcome !== "accepted" || !isRecord(answers)) return { type: "question" };
  const given = (ask.questions ?? []).map((question) => {
    const chosen = answers[question];
    return Array.isArray(chosen) ? chosen.map(String) : [];
  });
  return { type: "question", answers: given };
}
