import type { ContentPart, SpoolLine } from "../../contract/index.ts";
import { partText } from "../part-text.ts";
import type { HarnessCommand } from "../port.ts";
import { own } from "../transcript.ts";
import type { Ask, OpencodeState } from "./state.ts";
import { isRecord } from "../fields.ts";
import { parseObject } from "../line.ts";

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

export const COMPACT = "/compact";

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
  const body = { reply, ...(message === undefined ? {} : { message }) };
  return toLine({ method: "POST", path: `/permission/${ask.id}/reply`, body });
}

function toAnswer(ask: Ask, answers: readonly (readonly string[])[] | undefined): string {
  if (answers === undefined) return toLine({ method: "POST", path: `/question/${ask.id}/reject` });
  const count = ask.question?.count ?? 1;
  // The choices of several questions may come as one list. Every question needs an answer, even an empty one.
  const [first = []] = answers;
  const each =
    count > 1 && answers.length === 1 && first.length === count ? first.map((choice) => [choice]) : answers;
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
export interface Request {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly input?: string;
}

/** The purpose of a request that concerns a turn. */
export type Route =
  | { readonly to: "prompt"; readonly session: string; readonly body: Body; readonly input: string }
  | { readonly to: "summarize" | "abort"; readonly session: string; readonly input: string }
  | { readonly to: "permission"; readonly ask: string; readonly body: Body }
  | { readonly to: "answer"; readonly ask: string; readonly body: Body }
  | { readonly to: "reject"; readonly ask: string }
  | { readonly to: "mcp"; readonly body: Body };

export type Body = Readonly<Record<string, unknown>>;

export function toLine(request: Request): string {
  return JSON.stringify(request);
}

export function parseRoute(line: SpoolLine): Route | undefined {
  const request = parseObject(line);
  if (typeof request === "string" || request["method"] !== "POST") return undefined;
  const { path, body: given, input: name } = request;
  if (typeof path !== "string") return undefined;
  const body = isRecord(given) ? given : {};
  const input = typeof name === "string" ? name : "";
  if (path === "/mcp") return { to: "mcp", body };
  const [, room, id = "", verb, last] = path.split("/").map(decode);
  if (room === "session" && (verb === "prompt_async" || verb === "message"))
    return { to: "prompt", session: id, body, input };
  if (room === "session" && (verb === "summarize" || verb === "abort"))
    return { to: verb, session: id, input };
  // The older form of the same answer.
  if (room === "session" && verb === "permissions") {
    return { to: "permission", ask: last ?? "", body: { ...body, reply: body["response"] } };
  }
  if (room === "permission" && verb === "reply") return { to: "permission", ask: id, body };
  if (room === "question" && verb === "reply") return { to: "answer", ask: id, body };
  if (room === "question" && verb === "reject") return { to: "reject", ask: id };
  return undefined;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
