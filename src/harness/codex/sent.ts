import type { SpoolLine, ContentPart } from "../../contract/index.ts";
import { isRecord } from "../fields.ts";
import { type Params, type RpcId, toRpcMessage } from "../rpc.ts";
import { emptyTranscript, without, own } from "../transcript.ts";
import { parseObject } from "../line.ts";
import type { CodexState, AskOfCodex } from "./state.ts";
import type { HarnessCommand } from "../port.ts";
import { DECISIONS, COMPACT, fromInput } from "./encode.ts";

/** The state after a line to Codex. */
export function noteSent(state: CodexState, line: SpoolLine): CodexState {
  const value = parseObject(line);
  const message = typeof value === "string" ? undefined : toRpcMessage(value);
  if (message === undefined || message.kind === "notification") return state;
  if (message.kind !== "request") return noteAnswer(state, message.id);
  const { id, method, params } = message;
  const noted: CodexState = {
    ...state,
    driven: state.driven || id === "initialize",
    requests: { ...state.requests, [String(id)]: method },
  };
  const [purpose, reply, ask] = String(id).split(":");
  const decided = purpose === "plan" ? noteDecision(noted, ask ?? "", reply !== "reject") : noted;
  if (method !== "turn/start" && method !== "thread/compact/start") return decided;
  const compacting = method === "thread/compact/start";
  return { ...noteTurn(decided, purpose ?? "", params), compacting };
}

/** Forgets an ask that was answered. */
function noteAnswer(state: CodexState, id: RpcId): CodexState {
  const found = Object.entries(state.transcript.asks).find(([, ask]) => ask.kind !== "plan" && ask.id === id);
  return found ? forget(state, found[0]) : state;
}

function noteDecision(state: CodexState, id: string, approved: boolean): CodexState {
  const ask = own(state.transcript.asks, id);
  return ask?.kind === "plan" ? { ...forget(state, id), decided: { call: ask.call, approved } } : state;
}

/** A turn begins. A retry, or a decision on a plan, continues the running one. */
function noteTurn(state: CodexState, purpose: string, params: Params): CodexState {
  const { plan: _, ...next } = state;
  const mode = isRecord(params["collaborationMode"]) ? params["collaborationMode"]["mode"] : undefined;
  const opening = mode === undefined ? state.opening : { ...state.opening, plans: mode === "plan" };
  // The engine has ended the turn before this prompt; its open items are closed.
  const isLeft = state.halted && purpose !== "retry";
  const { prefix, count } = state.transcript;
  const transcript = isLeft ? { ...emptyTranscript<never>(prefix), count } : state.transcript;
  return { ...next, opening, transcript, prompted: true, halted: false };
}

function forget(state: CodexState, id: string): CodexState {
  const { transcript } = state;
  return { ...state, transcript: { ...transcript, asks: without(transcript.asks, id) } };
}

/** The command of a line to Codex: the inverse of `encode`. */
export function toCommand(state: CodexState, line: SpoolLine): HarnessCommand | undefined {
  if (line.dir === "meta") return fromArguments(line);
  if (line.dir !== "in") return undefined;
  const value = parseObject(line);
  const message = typeof value === "string" ? undefined : toRpcMessage(value);
  if (message?.kind === "request") return fromRequest(state, message.id, message.method, message.params);
  if (message?.kind !== "result") return undefined;
  const asks = Object.entries(state.transcript.asks);
  for (const [id, ask] of asks) {
    if (ask.kind !== "plan" && ask.id === message.id) {
      return fromAnswer(id, ask, isRecord(message.result) ? message.result : {});
    }
  }
  return undefined;
}

/** `codex exec … PROMPT`: the prompt is the last argument. */
function fromArguments(line: SpoolLine): HarnessCommand | undefined {
  const value = parseObject(line);
  const argv = typeof value === "string" || !Array.isArray(value["argv"]) ? [] : value["argv"].map(String);
  const text = argv.at(-1);
  if (argv[1] !== "exec" || argv.length < 3 || text === undefined || text.startsWith("-")) return undefined;
  return { type: "prompt", inputId: "argv", content: [{ type: "text", text }] };
}

function fromRequest(
  state: CodexState,
  id: RpcId,
  method: string,
  params: Params,
): HarnessCommand | undefined {
  const [purpose, ...rest] = String(id).split(":");
  if (purpose === "words") return undefined;
  if (purpose === "halt") return { type: "interrupt" };
  if (purpose === "retry") return { type: "retry" };
  if (purpose === "plan") return fromPlanRequest(state, rest, params);
  const inputId = rest.length === 0 ? String(id) : rest.join(":");
  switch (method) {
    case "turn/start":
      return { type: "prompt", inputId, content: fromInput(params["input"]) };
    case "thread/compact/start":
      return { type: "prompt", inputId, content: [{ type: "text", text: COMPACT }] };
    case "turn/steer":
      return { type: "steer", inputId, content: fromInput(params["input"]) };
    case "turn/interrupt":
      return params["threadId"] === state.thread ? { type: "interrupt" } : undefined;
    default:
      return undefined;
  }
}

function fromPlanRequest(
  state: CodexState,
  [reply, ...rest]: readonly string[],
  params: Params,
): HarnessCommand | undefined {
  const id = rest.join(":");
  if (!own(state.transcript.asks, id) || (reply !== "once" && reply !== "always" && reply !== "reject"))
    return undefined;
  const [words] = reply === "reject" ? fromInput(params["input"]) : [];
  return { type: "permission", id, reply, ...(words?.type === "text" ? { message: words.text } : {}) };
}

function fromAnswer(id: string, ask: AskOfCodex, result: Params): HarnessCommand {
  switch (ask.kind) {
    case "decision":
      return { type: "permission", id, reply: replyOf(result["decision"]), ...messageOf(result) };
    case "elicitation": {
      const isKept = isRecord(result["_meta"]) && result["_meta"]["persist"] != null;
      const reply = result["action"] !== "accept" ? "reject" : isKept ? "always" : "once";
      return { type: "permission", id, reply, ...messageOf(result) };
    }
    case "grant": {
      const { permissions, scope } = result;
      const isEmpty = !isRecord(permissions) || Object.keys(permissions).length === 0;
      const reply = isEmpty ? "reject" : scope === "session" ? "always" : "once";
      return { type: "permission", id, reply, ...messageOf(result) };
    }
    case "form": {
      const content =
        result["action"] === "accept" && isRecord(result["content"]) ? result["content"] : undefined;
      if (!content) return { type: "question", id };
      return { type: "question", id, answers: ask.fields.map(({ name }) => toStrings(content[name])) };
    }
    case "question": {
      const given = isRecord(result["answers"]) ? result["answers"] : {};
      if (Object.keys(given).length === 0) return { type: "question", id };
      return { type: "question", id, answers: ask.questions.map((name) => toStrings(own(given, name))) };
    }
    case "tool": {
      const items = Array.isArray(result["contentItems"]) ? result["contentItems"].filter(isRecord) : [];
      return { type: "tool", id, content: items.flatMap(toPart), isError: result["success"] !== true };
    }
  }
}

function replyOf(decision: unknown): "once" | "always" | "reject" {
  if (isRecord(decision)) return "always";
  if (decision === DECISIONS.always) return "always";
  return decision === DECISIONS.once ? "once" : "reject";
}

function messageOf({ message }: Params): { message?: string } {
  return typeof message === "string" ? { message } : {};
}

function toStrings(value: unknown): string[] {
  const answers = isRecord(value) ? value["answers"] : value;
  if (Array.isArray(answers)) return answers.map(String);
  return answers === undefined ? [] : [String(answers)];
}

function toPart({ text, imageUrl }: Params): ContentPart[] {
  if (typeof imageUrl === "string") {
    const mime = /^data:([^;,]+)/.exec(imageUrl)?.[1];
    return [{ type: "image", path: imageUrl, ...(mime === undefined ? {} : { mime }) }];
  }
  return typeof text === "string" ? [{ type: "text", text }] : [];
}
