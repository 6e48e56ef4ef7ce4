import type { ContentPart, SpoolLine } from "../../contract/index.ts";
import { fromPartText } from "../partText.ts";
import type { HarnessCommand } from "../port.ts";
import { parseObject } from "../unparsed.ts";
import { DENIED } from "./encode.ts";
import { type Fields, toFields, toList, toText } from "./fields.ts";
import { fromPlanAnswer } from "./plan-approval.ts";
import type { Ask, AskedQuestion, ClaudeState } from "./state.ts";

/** What somebody told the CLI by a line of its input. */
export function overhear(state: ClaudeState, line: SpoolLine): HarnessCommand | undefined {
  if (line.dir !== "in" || state.isOver) return undefined;
  const value = parseObject(line);
  if (typeof value === "string") return undefined;
  switch (value["type"]) {
    case "user": {
      const content = toContent(toFields(value["message"])["content"]);
      return { type: state.inTurn ? "steer" : "prompt", inputId: "", content };
    }
    case "control_request":
      return toFields(value["request"])["subtype"] === "interrupt" ? { type: "interrupt" } : undefined;
    case "control_response":
      return overhearAnswer(state, toFields(value["response"]));
    default:
      return undefined;
  }
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

function overhearAnswer(state: ClaudeState, response: Fields): HarnessCommand | undefined {
  const found = Object.entries(state.transcript.asks).find(
    ([, ask]) => ask.request === response["request_id"],
  );
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
