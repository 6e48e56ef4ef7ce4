import { splitAnswers } from "../answers.ts";
import { createHash } from "node:crypto";
import type { ContentPart, SpoolLine } from "../../contract/index.ts";
import { fromPartText, imagePart, partText } from "../content-part.ts";
import { type Fields, parseObject, toFields, toList, toText } from "../fields.ts";
import type { HarnessCommand } from "../port.ts";
import { findAsk, own, withoutAsk } from "../transcript.ts";
import { answerPlan, fromPlanAnswer } from "./plan-mode.ts";
import {
  type Ask,
  type AskedQuestion,
  type ClaudeState,
  isInTurn,
  nextPhase,
  restoreState,
} from "./state.ts";

type Answer = Extract<HarnessCommand, { type: "permission" | "question" }>;

/** The first line. It turns on the text of sub-agents, and gives a resumed conversation the present system prompt. */
export function greet(): readonly string[] {
  const request = {
    subtype: "initialize",
    hooks: null,
    forwardSubagentText: true,
    systemPromptSnapshot: false,
  };
  return [control("initialize", request)];
}

export function encode(saved: ClaudeState, command: HarnessCommand): readonly string[] | undefined | "later" {
  const state = restoreState(saved);
  const { phase } = state;
  switch (command.type) {
    case "prompt":
    case "steer":
      return phase === "greeting" ? "later" : [toUserLine(command)];
    case "interrupt":
      return phase === "greeting" || phase === "prompted" ? "later" : toInterrupt(state);
    case "permission":
    case "question":
      return toAnswer(own(state.transcript.asks, command.id), command);
    case "tool":
    case "retry":
      return undefined;
  }
}

const DENIED = "The user does not want this. Do not try it again; go on without it or ask.";
const UNANSWERED = "The user did not answer. Go on by your own judgement, or stop and say what you need.";

function toUserLine({ inputId, content }: { inputId: string; content: readonly ContentPart[] }): string {
  const message = { role: "user", content: content.map(toBlock) };
  return JSON.stringify({
    type: "user",
    uuid: toUuid(inputId),
    session_id: "",
    parent_tool_use_id: null,
    message,
  });
}

/** The message's id in the CLI's reports. It is derived from the input's id. */
function toUuid(inputId: string): string {
  const hash = createHash("sha256").update(inputId).digest("hex");
  return hash.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, "$1-$2-4$3-8$4-$5");
}

function toBlock(part: ContentPart): unknown {
  const [, mime, data] = part.type === "image" ? (DATA_URL.exec(part.path) ?? []) : [];
  if (data !== undefined) return { type: "image", source: { type: "base64", media_type: mime, data } };
  return { type: "text", text: partText(part) };
}

const DATA_URL = /^data:([^;,]+);base64,(.*)$/s;

/** Stops the main agent, its queued messages and its background sub-agents. */
function toInterrupt(state: ClaudeState): readonly string[] {
  const number = state.interruptCount + 1;
  const tasks = Object.values(state.background).filter((task) => task !== "");
  return [
    ...tasks.map((task) => control(`stop_${number}_${task}`, { subtype: "stop_task", task_id: task })),
    control(`interrupt_${number}`, { subtype: "interrupt", cancel_queued: true }),
  ];
}

function toAnswer(ask: Ask | undefined, command: Answer): readonly string[] {
  if (!ask) return [];
  if (command.type === "permission")
    return ask.kind === "permission" ? [toResponse(ask.request, decide(ask, command))] : [];
  return ask.kind === "permission" ? [] : [toResponse(ask.request, reply(ask, command))];
}

type PermissionAsk = Extract<Ask, { kind: "permission" }>;

function decide(ask: PermissionAsk, { reply, message }: Extract<Answer, { type: "permission" }>): unknown {
  if (reply === "reject") return { behavior: "deny", message: message ?? DENIED };
  const allowed = { behavior: "allow", updatedInput: ask.input };
  return reply === "once" ? allowed : { ...allowed, updatedPermissions: toRules(ask) };
}

/** The CLI would write its rules into the workspace's settings. Here they hold for the session only. */
function toRules(ask: PermissionAsk): unknown[] {
  if (ask.rules.length > 0) return ask.rules.map((rule) => ({ ...(rule as object), destination: "session" }));
  return [{ type: "addRules", rules: [{ toolName: ask.tool }], behavior: "allow", destination: "session" }];
}

function reply(ask: Ask, { answers, message }: Extract<Answer, { type: "question" }>): unknown {
  if (ask.kind === "plan")
    return answerPlan(ask.input, answers ?? (message === undefined ? [] : [[message]]));
  if (answers === undefined || ask.kind !== "question")
    return { behavior: "deny", message: message ?? UNANSWERED };
  const each = splitAnswers(answers, ask.questions.length);
  const given = ask.questions.flatMap(({ text }: AskedQuestion, index) => {
    const answer = each[index];
    return answer === undefined || answer.length === 0 ? [] : [[text, answer.join(", ")]];
  });
  return { behavior: "allow", updatedInput: { ...ask.input, answers: Object.fromEntries(given) } };
}

function control(id: string, request: Record<string, unknown>): string {
  return JSON.stringify({ type: "control_request", request_id: id, request });
}

/** The answer to a request of the CLI. */
export function toResponse(id: string, response: unknown): string {
  return JSON.stringify({
    type: "control_response",
    response: { subtype: "success", request_id: id, response },
  });
}

/** The state after a line on the CLI's stdin. */
export function noteSent(state: ClaudeState, line: SpoolLine): ClaudeState {
  const value = parseObject(line);
  if (typeof value === "string") return state;
  switch (value["type"]) {
    case "user":
      return notePrompt(state, toText(value["uuid"]));
    case "control_request": {
      if (toFields(value["request"])["subtype"] !== "interrupt") return state;
      const interrupts = [...state.interrupts, toText(value["request_id"])];
      return { ...state, interrupts, interruptCount: state.interruptCount + 1 };
    }
    case "control_response":
      return forgetAnswered(state, toText(toFields(value["response"])["request_id"]));
    default:
      return state;
  }
}

function notePrompt(state: ClaudeState, uuid: string): ClaudeState {
  const isSteer = isInTurn(state);
  const waiting: ClaudeState["waiting"] =
    uuid === "" ? state.waiting : { ...state.waiting, [uuid]: isSteer ? "steer" : "prompt" };
  return {
    ...state,
    phase: nextPhase(state.phase, "prompted"),
    hasSpoken: isSteer && state.hasSpoken,
    isIdle: false,
    waiting,
  };
}

function forgetAnswered(state: ClaudeState, request: string): ClaudeState {
  const found = findAsk(state.transcript, (ask) => ask.request === request);
  return found ? withoutAsk(state, found[0]) : state;
}

/** The command that a line on stdin carries: the inverse of `encode`. */
export function toCommand(saved: ClaudeState, line: SpoolLine): HarnessCommand | undefined {
  const state = restoreState(saved);
  if (line.dir !== "in" || state.isOver) return undefined;
  const value = parseObject(line);
  if (typeof value === "string") return undefined;
  switch (value["type"]) {
    case "user": {
      const content = toContent(toFields(value["message"])["content"]);
      return { type: isInTurn(state) ? "steer" : "prompt", inputId: "", content };
    }
    case "control_request":
      return toFields(value["request"])["subtype"] === "interrupt" ? { type: "interrupt" } : undefined;
    case "control_response":
      return fromAnswer(state, toFields(value["response"]));
    default:
      return undefined;
  }
}

function toContent(content: unknown): ContentPart[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  return toList(content).map(toPart);
}

function toPart(block: Fields): ContentPart {
  const { data, media_type: mime } = toFields(block["source"]);
  if (block["type"] === "image") return imagePart(toText(data), toText(mime));
  return fromPartText(toText(block["text"]));
}

function fromAnswer(state: ClaudeState, response: Fields): HarnessCommand | undefined {
  const found = findAsk(state.transcript, (ask) => ask.request === response["request_id"]);
  if (!found) return undefined;
  const [id, ask] = found;
  const answer = toFields(response["response"]);
  if (ask.kind === "permission") return toDecision(id, answer);
  if (ask.kind === "question") return toReply(id, ask, answer);
  const answers = fromPlanAnswer(answer);
  return { type: "question", id, ...(answers === undefined ? {} : { answers }) };
}

function toDecision(id: string, answer: Fields): HarnessCommand {
  if (answer["behavior"] === "allow") {
    return { type: "permission", id, reply: answer["updatedPermissions"] === undefined ? "once" : "always" };
  }
  const message = toText(answer["message"]);
  const words = message === "" || message === DENIED ? {} : { message };
  return { type: "permission", id, reply: "reject", ...words };
}

function toReply(id: string, ask: Extract<Ask, { kind: "question" }>, answer: Fields): HarnessCommand {
  if (answer["behavior"] !== "allow") return { type: "question", id };
  const answers = toFields(toFields(answer["updatedInput"])["answers"]);
  return { type: "question", id, answers: ask.questions.map((question) => toAnswers(question, answers)) };
}

function toAnswers({ text, takesMany }: AskedQuestion, answers: Fields): string[] {
  const answer = answers[text];
  if (typeof answer !== "string") return [];
  return takesMany ? answer.split(", ") : [answer];
}
