import type { SpoolLine, ContentPart } from "../../contract/index.ts";
import { without } from "../transcript.ts";
import { parseRoute, COMPACT, type Body } from "./encode.ts";
import { mcpPrefix, type OpencodeState } from "./state.ts";
import type { HarnessCommand } from "../port.ts";
import { isRecord } from "../fields.ts";
import { parseObject } from "../line.ts";
import { toAcpCommand, isAcpForm } from "./forms.ts";
import { fromPartText } from "../part-text.ts";

/** The state after a request: a turn begins, or an ask is answered. */
export function readRequest(state: OpencodeState, line: SpoolLine): OpencodeState {
  const route = parseRoute(line);
  switch (route?.to) {
    case "prompt":
    case "summarize":
      return prompt(state, route.session);
    case "abort":
      if (!state.turn || route.session !== state.session) return state;
      return { ...state, turn: { ...state.turn, isInterrupted: true } };
    case "permission":
    case "answer":
    case "reject":
      return forget(state, route.ask);
    case "mcp": {
      const { name } = route.body;
      if (typeof name !== "string") return state;
      return { ...state, servers: { ...state.servers, [mcpPrefix(name)]: name } };
    }
    default:
      return state;
  }
}

/** The session of the first prompt is the main one. A prompt to another session during a turn changes nothing. */
function prompt(state: OpencodeState, session: string): OpencodeState {
  const { turn } = state;
  if (turn && session !== state.session) return state;
  if (turn) return { ...state, turn: { ...turn, awaited: turn.awaited + 1 } };
  const begun = { awaited: 1, hasBegun: false, isInterrupted: false, isIdle: false };
  return { ...state, session, isTold: state.isTold && session === state.session, turn: begun };
}

function forget(state: OpencodeState, native: string): OpencodeState {
  const { asks } = state.transcript;
  const id = Object.entries(asks).find(([, ask]) => ask.id === native)?.[0];
  if (id === undefined) return state;
  return { ...state, transcript: { ...state.transcript, asks: without(asks, id) } };
}

/** The command of a request: the inverse of `encode`. `opencode run` has its prompt on the command line. */
export function toCommand(state: OpencodeState, line: SpoolLine): HarnessCommand | undefined {
  if (isAcpForm(state, line)) return toAcpCommand(state, line);
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
