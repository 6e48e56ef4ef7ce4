import type { ContentPart, SpoolLine } from "../../contract/index.ts";
import type { HarnessCommand } from "../port.ts";
import { isRecord } from "../rpc.ts";
import { parseObject } from "../unparsed.ts";
import { overhearAcpForm, speaksAcp } from "./acp-form.ts";
import { fromPartText } from "../partText.ts";
import { COMPACT } from "./encode.ts";
import { type Body, parseRoute } from "./request.ts";
import type { OpencodeState } from "./state.ts";

/** What a request tells the server: the way back from `encode`. `opencode run` was told on its command line. */
export function overhear(state: OpencodeState, line: SpoolLine): HarnessCommand | undefined {
  if (speaksAcp(state, line)) return overhearAcpForm(state, line);
  if (line.dir === "meta") return toRunPrompt(line);
  const route = parseRoute(line);
  switch (route?.to) {
    case "prompt": {
      if (state.turn && route.session !== state.session) return undefined;
      const content = toContent(route.body);
      return { type: state.turn ? "steer" : "prompt", inputId: route.input, content };
    }
    case "summarize":
      return { type: "prompt", inputId: route.input, content: [{ type: "text", text: COMPACT }] };
    case "abort":
      return route.session === state.session ? { type: "interrupt" } : undefined;
    case "permission":
      return toDecision(findAsk(state, route.ask), route.body);
    case "answer":
      return toAnswer(findAsk(state, route.ask), route.body);
    case "reject": {
      const id = findAsk(state, route.ask);
      return id === undefined ? undefined : { type: "question", id };
    }
    default:
      return undefined;
  }
}

function toRunPrompt(line: SpoolLine): HarnessCommand | undefined {
  const meta = parseObject(line);
  const argv = typeof meta === "string" ? undefined : meta["argv"];
  if (!Array.isArray(argv) || argv[1] !== "run") return undefined;
  return { type: "prompt", inputId: "", content: [{ type: "text", text: String(argv.at(-1)) }] };
}

function findAsk({ transcript }: OpencodeState, native: string): string | undefined {
  return Object.entries(transcript.asks).find(([, ask]) => ask.id === native)?.[0];
}

function toContent({ parts }: Body): ContentPart[] {
  return Array.isArray(parts) ? parts.filter(isRecord).flatMap(toPart) : [];
}

function toPart({ type, text, url, mime }: Body): ContentPart[] {
  if (type === "text" && typeof text === "string") return [fromPartText(text)];
  if (type !== "file" || typeof url !== "string") return [];
  if (typeof mime === "string" && mime.startsWith("image/")) return [{ type: "image", path: url, mime }];
  return [{ type: "file_ref", path: url, action: "read" }];
}

function toDecision(id: string | undefined, { reply, message }: Body): HarnessCommand | undefined {
  if (id === undefined || (reply !== "once" && reply !== "always" && reply !== "reject")) return undefined;
  return { type: "permission", id, reply, ...(typeof message === "string" ? { message } : {}) };
}

function toAnswer(id: string | undefined, { answers }: Body): HarnessCommand | undefined {
  if (id === undefined || !Array.isArray(answers)) return undefined;
  return {
    type: "question",
    id,
    answers: answers.map((answer) => (Array.isArray(answer) ? answer.map(String) : [])),
  };
}
