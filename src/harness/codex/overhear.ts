import type { ContentPart, SpoolLine } from "../../contract/index.ts";
import type { HarnessCommand } from "../port.ts";
import { isRecord, type Params, type RpcId, toRpcMessage } from "../rpc.ts";
import { own } from "../transcript.ts";
import { parseObject } from "../unparsed.ts";
import { DECISIONS } from "./answers.ts";
import { COMPACT } from "./encode.ts";
import { fromInput } from "./input.ts";
import type { AskOfCodex, CodexState } from "./state.ts";

/** What somebody told Codex by a line: the way back from `encode`. */
export function overhear(state: CodexState, line: SpoolLine): HarnessCommand | undefined {
  if (line.dir === "meta") return overhearArguments(line);
  if (line.dir !== "in") return undefined;
  const value = parseObject(line);
  const message = typeof value === "string" ? undefined : toRpcMessage(value);
  if (message?.kind === "request") return overhearRequest(state, message.id, message.method, message.params);
  if (message?.kind !== "result") return undefined;
  const asks = Object.entries(state.transcript.asks);
  for (const [id, ask] of asks) {
    if (ask.kind !== "plan" && ask.id === message.id) {
      return overhearAnswer(id, ask, isRecord(message.result) ? message.result : {});
    }
  }
  return undefined;
}

/** `codex exec … PROMPT`: its prompt is the last word of the command line. */
function overhearArguments(line: SpoolLine): HarnessCommand | undefined {
  const value = parseObject(line);
  const argv = typeof value === "string" || !Array.isArray(value["argv"]) ? [] : value["argv"].map(String);
  const text = argv.at(-1);
  if (argv[1] !== "exec" || argv.length < 3 || text === undefined || text.startsWith("-")) return undefined;
  return { type: "prompt", inputId: "argv", content: [{ type: "text", text }] };
}

function overhearRequest(
  state: CodexState,
  id: RpcId,
  method: string,
  params: Params,
): HarnessCommand | undefined {
  const [purpose, ...rest] = String(id).split(":");
  if (purpose === "words") return undefined;
  if (purpose === "halt") return { type: "interrupt" };
  if (purpose === "retry") return { type: "retry" };
  if (purpose === "plan") return overhearPlan(state, rest, params);
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

function overhearPlan(
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

function overhearAnswer(id: string, ask: AskOfCodex, result: Params): HarnessCommand {
  switch (ask.kind) {
    case "decision":
      return { type: "permission", id, reply: replyOf(result["decision"]), ...wordsOf(result) };
    case "elicitation": {
      const isKept = isRecord(result["_meta"]) && result["_meta"]["persist"] != null;
      const reply = result["action"] !== "accept" ? "reject" : isKept ? "always" : "once";
      return { type: "permission", id, reply, ...wordsOf(result) };
    }
    case "grant": {
      const { permissions, scope } = result;
      const isEmpty = !isRecord(permissions) || Object.keys(permissions).length === 0;
      const reply = isEmpty ? "reject" : scope === "session" ? "always" : "once";
      return { type: "permission", id, reply, ...wordsOf(result) };
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

function wordsOf({ message }: Params): { message?: string } {
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
