import type { ContentPart, SpoolLine } from "../../contract/index.ts";
import { type Fields, toFields, toList, toText } from "../fields.ts";
import { parseObject } from "../line.ts";
import { fromPartText } from "../part-text.ts";
import type { HarnessCommand } from "../port.ts";
import { without } from "../transcript.ts";
import { DENIED } from "./encode.ts";
import { fromPlanAnswer } from "./plan.ts";
import {
  type Ask,
  type AskedQuestion,
  type ClaudeState,
  isInTurn,
  nextPhase,
  restoreState,
} from "./state.ts";

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

/** Forgets an ask that was answered. */
function forgetAnswered(state: ClaudeState, request: string): ClaudeState {
  const found = findAsk(state, request);
  if (!found) return state;
  const { transcript } = state;
  return { ...state, transcript: { ...transcript, asks: without(transcript.asks, found[0]) } };
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

function findAsk({ transcript }: ClaudeState, request: unknown): [string, Ask] | undefined {
  return Object.entries(transcript.asks).find(([, ask]) => ask.request === request);
}

function toContent(content: unknown): ContentPart[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  return toList(content).map(toPart);
}

function toPart(block: Fields): ContentPart {
  const source = toFields(block["source"]);
  const mime = toText(source["media_type"]);
  if (block["type"] === "image")
    return { type: "image", path: `data:${mime};base64,${toText(source["data"])}`, mime };
  return fromPartText(toText(block["text"]));
}

function fromAnswer(state: ClaudeState, response: Fields): HarnessCommand | undefined {
  const found = findAsk(state, response["request_id"]);
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
