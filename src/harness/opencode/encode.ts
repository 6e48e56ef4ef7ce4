import { splitAnswers } from "../answers.ts";
import type { ContentPart, SpoolLine } from "../../contract/index.ts";
import { fromPartText, partText } from "../content-part.ts";
import { type Fields, isRecord, parseObject, toFields } from "../fields.ts";
import type { HarnessCommand } from "../port.ts";
import { toPermission } from "../recording.ts";
import { findAsk, own, withoutAsk } from "../transcript.ts";
import { type Ask, mcpPrefix, type OpencodeState } from "./state.ts";

/** The request that carries a command; none for an answer to a closed ask. */
export function encode(
  state: OpencodeState,
  command: HarnessCommand,
): readonly string[] | undefined | "later" {
  const { session, turn } = state;
  switch (command.type) {
    case "prompt":
      if (session === undefined) return "later";
      return [
        isCompact(command.content)
          ? toCompaction(state, session, command)
          : toPrompt(state, session, command),
      ];
    case "steer":
      if (session === undefined || !turn?.hasBegun || turn.isInterrupted || turn.isIdle) return undefined;
      return [toPrompt(state, session, command)];
    case "interrupt":
      return session === undefined ? "later" : [requestAbort(session)];
    case "permission": {
      const ask = own(state.transcript.asks, command.id);
      return ask?.kind === "permission" ? [toReply(ask, command)] : [];
    }
    case "question": {
      const ask = own(state.transcript.asks, command.id);
      return ask?.kind === "question" ? [toAnswer(ask, command.answers)] : [];
    }
    default:
      return undefined;
  }
}

export function requestAbort(session: string): string {
  return toLine({ method: "POST", path: `/session/${session}/abort` });
}

const COMPACT = "/compact";

type Said = Extract<HarnessCommand, { type: "prompt" | "steer" }>;

function isCompact([part, ...more]: readonly ContentPart[]): boolean {
  return more.length === 0 && part?.type === "text" && part.text.trim() === COMPACT;
}

/** The request of OpenCode's own clients for `/compact`. Without a model there is nothing to compact yet. */
function toCompaction(state: OpencodeState, session: string, said: Said): string {
  const model = state.model ?? state.wish.model;
  if (model === undefined) return toPrompt(state, session, said);
  return toLine({ method: "POST", path: `/session/${session}/summarize`, body: model, input: said.inputId });
}

function toPrompt({ wish }: OpencodeState, session: string, { content, inputId }: Said): string {
  const body = { ...wish, parts: content.map(toPart) };
  return toLine({ method: "POST", path: `/session/${session}/prompt_async`, body, input: inputId });
}

function toPart(part: ContentPart): unknown {
  if (part.type === "image" && part.path.startsWith("data:")) {
    const mime = /^data:([^;,]+)/.exec(part.path)?.[1] ?? part.mime ?? "image/png";
    return { type: "file", mime, url: part.path };
  }
  return { type: "text", text: partText(part) };
}

function toReply(ask: Ask, { reply, message }: Extract<HarnessCommand, { type: "permission" }>): string {
  return toLine({ method: "POST", path: `/permission/${ask.id}/reply`, body: { reply, message } });
}

function toAnswer(ask: Ask, answers: readonly (readonly string[])[] | undefined): string {
  if (answers === undefined) return toLine({ method: "POST", path: `/question/${ask.id}/reject` });
  const count = ask.question?.count ?? 1;
  // Every question needs an answer, even an empty one.
  const each = splitAnswers(answers, count);
  const missing = Array.from({ length: Math.max(0, count - each.length) }, () => []);
  return toLine({
    method: "POST",
    path: `/question/${ask.id}/reply`,
    body: { answers: [...each, ...missing] },
  });
}

/**
 * A line on the gateway's stdin: a request to OpenCode's server. `input` is our own field, which the server does not
 * get.
 */
interface Request {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly input?: string;
}

/** The purpose of a request that concerns a turn. */
type Route =
  | { readonly to: "prompt"; readonly session: string; readonly body: Fields; readonly input: string }
  | { readonly to: "summarize" | "abort"; readonly session: string; readonly input: string }
  | { readonly to: "permission"; readonly ask: string; readonly body: Fields }
  | { readonly to: "answer"; readonly ask: string; readonly body: Fields }
  | { readonly to: "reject"; readonly ask: string }
  | { readonly to: "mcp"; readonly body: Fields };

function toLine(request: Request): string {
  return JSON.stringify(request);
}

function parseRoute(line: SpoolLine): Route | undefined {
  const request = parseObject(line);
  if (typeof request === "string" || request["method"] !== "POST") return undefined;
  const { path, body: given, input: name } = request;
  if (typeof path !== "string") return undefined;
  const body = toFields(given);
  const input = typeof name === "string" ? name : "";
  if (path === "/mcp") return { to: "mcp", body };
  const [, resource, id = "", verb, last] = path.split("/").map(decode);
  if (resource === "session" && (verb === "prompt_async" || verb === "message"))
    return { to: "prompt", session: id, body, input };
  if (resource === "session" && (verb === "summarize" || verb === "abort"))
    return { to: verb, session: id, input };
  // The older form of the same answer.
  if (resource === "session" && verb === "permissions") {
    return { to: "permission", ask: last ?? "", body: { ...body, reply: body["response"] } };
  }
  if (resource === "permission" && verb === "reply") return { to: "permission", ask: id, body };
  if (resource === "question" && verb === "reply") return { to: "answer", ask: id, body };
  if (resource === "question" && verb === "reject") return { to: "reject", ask: id };
  return undefined;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The state after a request: a turn begins, or an ask is answered. */
export function readRequest(state: OpencodeState, line: SpoolLine): OpencodeState {
  const route = parseRoute(line);
  switch (route?.to) {
    case "prompt":
    case "summarize":
      return notePrompt(state, route.session);
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
function notePrompt(state: OpencodeState, session: string): OpencodeState {
  const { turn } = state;
  if (turn && session !== state.session) return state;
  if (turn) return { ...state, turn: { ...turn, awaited: turn.awaited + 1 } };
  const begun = { awaited: 1, hasBegun: false, isInterrupted: false, isIdle: false };
  return { ...state, session, isTold: state.isTold && session === state.session, turn: begun };
}

function forget(state: OpencodeState, native: string): OpencodeState {
  const id = idOfAsk(state, native);
  return id === undefined ? state : withoutAsk(state, id);
}

/** The command of a request: the inverse of `encode`. `opencode run` has its prompt on the command line. */
export function toCommand(state: OpencodeState, line: SpoolLine): HarnessCommand | undefined {
  if (line.dir === "meta") return toRunPrompt(line);
  const route = parseRoute(line);
  switch (route?.to) {
    case "prompt": {
      if (state.turn && route.session !== state.session) return undefined;
      const content = fromContent(route.body);
      return { type: state.turn ? "steer" : "prompt", inputId: route.input, content };
    }
    case "summarize":
      return { type: "prompt", inputId: route.input, content: [{ type: "text", text: COMPACT }] };
    case "abort":
      return route.session === state.session ? { type: "interrupt" } : undefined;
    case "permission":
      return toPermission(idOfAsk(state, route.ask), route.body);
    case "answer":
      return fromAnswer(idOfAsk(state, route.ask), route.body);
    case "reject": {
      const id = idOfAsk(state, route.ask);
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

function idOfAsk({ transcript }: OpencodeState, native: string): string | undefined {
  return findAsk(transcript, (ask) => ask.id === native)?.[0];
}

function fromContent({ parts }: Fields): ContentPart[] {
  return Array.isArray(parts) ? parts.filter(isRecord).flatMap(fromPart) : [];
}

function fromPart({ type, text, url, mime }: Fields): ContentPart[] {
  if (type === "text" && typeof text === "string") return [fromPartText(text)];
  if (type !== "file" || typeof url !== "string") return [];
  if (typeof mime === "string" && mime.startsWith("image/")) return [{ type: "image", path: url, mime }];
  return [{ type: "file_ref", path: url, action: "read" }];
}

function fromAnswer(id: string | undefined, { answers }: Fields): HarnessCommand | undefined {
  if (id === undefined || !Array.isArray(answers)) return undefined;
  return {
    type: "question",
    id,
    answers: answers.map((answer) => (Array.isArray(answer) ? answer.map(String) : [])),
  };
}
