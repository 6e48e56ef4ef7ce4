import { splitAnswers } from "../answers.ts";
import { originOf } from "../acp/decode.ts";
import type { AcpDialect, AcpReading, Answer, AnswerBody, NamedTool } from "../acp/dialect.ts";
import { endSpeech, parentOf } from "../acp/messages.ts";
import type { AcpAsk, AcpState, Wishes } from "../acp/state.ts";
import { settleTool } from "../acp/tools.ts";
import { isRecord, toRecords } from "../fields.ts";
import { toMcpName } from "../launch/mcp.ts";
import type { Params, RpcId, RpcMessage } from "../rpc.ts";
import { own } from "../transcript.ts";
import { messagesForm, streamForm } from "./forms.ts";
import { noteSpawn, readNotification, watchStream } from "./notifications.ts";

/** Grok Build's additions to ACP: its own requests, usage per model request, argument deltas, retries, sub-agents. */
export const grokDialect: AcpDialect = {
  tool: nameGrokTool,
  // Each model request was reported at its end.
  usage: () => [],
  settings: ({ permissionMode, agentMode }: Wishes, offer: Params) => {
    const mode = agentMode ?? (permissionMode === "plan" ? "plan" : "default");
    if (mode === "default") return [];
    return [
      { id: "mode", method: "session/set_mode", params: { sessionId: offer["sessionId"], modeId: mode } },
    ];
  },
  before: watchStream,
  awaits: awaitsServers,
  settled: noteSpawn,
  extension: readExtension,
  answer: answerGrok,
  fromAnswer: fromGrokAnswer,
  steer: {
    method: "_x.ai/interject",
    params: (sessionId, text) => ({ sessionId, text }),
    text: ({ text }) => String(text),
  },
  fork: {
    method: "_x.ai/session/fork",
    params: ({ resume, cwd }) => ({ sourceSessionId: resume, sourceCwd: cwd, newCwd: cwd }),
    session: ({ newSessionId }) => (typeof newSessionId === "string" ? newSessionId : undefined),
  },
  forms: [streamForm, messagesForm],
  hasChildren: true,
  reportsPlans: true,
  endDetails: ({ stopReason, _meta: meta }) => {
    const why = isRecord(meta) ? meta["cancellationCategory"] : undefined;
    return stopReason === "cancelled" && typeof why === "string" ? { cancelled: why } : undefined;
  },
};

/** The name is in `_meta`; MCP tools are called through `use_tool`. */
function nameGrokTool(fields: Params, { state }: AcpReading): NamedTool | undefined {
  const { _meta: meta, rawInput, toolName, rawOutput } = fields;
  const given = isRecord(meta) && isRecord(meta["x.ai/tool"]) ? meta["x.ai/tool"]["name"] : toolName;
  if (isRecord(rawOutput) && rawOutput["type"] === "MCP" && given === undefined) return { name: "use_tool" };
  if (typeof given !== "string") return undefined;
  const target = isRecord(rawInput) && given === "use_tool" ? rawInput["tool_name"] : undefined;
  if (!isRecord(rawInput) || typeof target !== "string") return { name: given };
  const name = toMcpName(target, state.servers, "__") ?? `mcp__${target}`;
  return { name, input: rawInput["tool_input"] };
}

const CONNECTED = "connected";

/** A prompt before the MCP servers are connected would find none of their tools. Grok reports failed servers too. */
function awaitsServers({ servers, aside }: AcpState): boolean {
  return servers.length > 0 && aside[CONNECTED] === undefined;
}

/** Requests and notifications under `_x.ai/`. */
function readExtension(reading: AcpReading, message: Extract<RpcMessage, { method: string }>): boolean {
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
  const options = asked.flatMap(({ options }) => toRecords(options));
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
function answerGrok(ask: AcpAsk, command: Answer): unknown {
  if (ask.kind === "plan" && command.type === "permission") {
    if (command.reply !== "reject") return { outcome: "approved" };
    return { outcome: "rejected", ...(command.message === undefined ? {} : { feedback: command.message }) };
  }
  if (ask.kind !== "question" || command.type !== "question") return undefined;
  const { answers } = command;
  if (answers === undefined) return { outcome: "cancelled" };
  const questions = ask.questions ?? [];
  const each = splitAnswers(answers, questions.length);
  return {
    outcome: "accepted",
    answers: Object.fromEntries(questions.map((question, index) => [question, [...(each[index] ?? [])]])),
  };
}

function fromGrokAnswer(ask: AcpAsk, { outcome, answers, feedback }: Params): AnswerBody | undefined {
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
