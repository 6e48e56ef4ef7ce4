import type { ContentPart, SpoolLine } from "../../contract/index.ts";
import { fromPartText, imagePart, partText } from "../content-part.ts";
import { asText, type Fields, isRecord, toFields, toRecords } from "../fields.ts";
import type { HarnessCommand } from "../port.ts";
import { type Params, parseRpc, type RpcId, toNotification, toRequest, toResponse } from "../rpc.ts";
import { findAsk, own, withoutAsk } from "../transcript.ts";
import { toAnswer, toResult } from "./asks.ts";
import type { AcpDialect } from "./dialect.ts";
import { type AcpState, isRunning } from "./state.ts";
import { FEEDBACK } from "./turns.ts";

export function encodeAcp(
  dialect: AcpDialect,
  state: AcpState,
  command: HarnessCommand,
): readonly string[] | undefined | "later" {
  const { session } = state;
  switch (command.type) {
    case "prompt":
      if (state.phase === "failed") return undefined;
      if (state.phase !== "ready" || session === undefined || dialect.awaits?.(state)) return "later";
      return [
        toRequest(command.inputId, "session/prompt", {
          sessionId: session,
          prompt: toBlocks(command.content),
        }),
      ];
    case "steer": {
      if (!dialect.steer || session === undefined || !isRunning(state)) return undefined;
      const params = dialect.steer.params(session, command.content.map(partText).join("\n"));
      return [toRequest(command.inputId, dialect.steer.method, params)];
    }
    case "interrupt":
      return session === undefined ? "later" : interruption(state, session);
    case "permission":
    case "question": {
      const ask = own(state.transcript.asks, command.id);
      if (!ask) return [];
      const result = toResult(dialect, ask, command);
      return result === undefined ? undefined : [toResponse(ask.rpc, result)];
    }
    case "tool":
    case "retry":
      return undefined;
  }
}

/** The protocol wants every open request of a cancelled turn to be answered as cancelled. */
function interruption({ transcript }: AcpState, session: string): string[] {
  const open = Object.values(transcript.asks).filter(({ kind }) => kind === "permission");
  return [
    toNotification("session/cancel", { sessionId: session }),
    ...open.map(({ rpc }) => toResponse(rpc, { outcome: { outcome: "cancelled" } })),
  ];
}

/** A message as ACP's content blocks. Parts other than texts and inline images are named by their path. */
function toBlocks(content: readonly ContentPart[]): Fields[] {
  return content.map((part) => {
    if (part.type !== "image") return { type: "text", text: partText(part) };
    const data = /^data:([^;,]*);base64,(.*)$/s.exec(part.path);
    if (!data) return { type: "text", text: partText(part) };
    return { type: "image", mimeType: part.mime ?? data[1], data: data[2] };
  });
}

/** The inverse of `toBlocks`, for reading recordings. */
function fromBlocks(blocks: unknown): ContentPart[] {
  return toRecords(blocks).map((block): ContentPart => {
    const { type, text, mimeType, data, uri } = block;
    if (type === "image" && typeof data === "string") {
      return imagePart(data, asText(mimeType) ?? "image/png");
    }
    if (typeof uri === "string")
      return { type: "file_ref", path: uri.replace(/^file:\/\//, ""), action: "read" };
    if (typeof text !== "string") return { type: "json", json: block };
    return fromPartText(text);
  });
}

/** The state after a line to the agent, for reading its answers. */
export function noteSent(dialect: AcpDialect, state: AcpState, line: SpoolLine): AcpState {
  const message = parseRpc(line);
  if (!message) return state;
  switch (message.kind) {
    case "request":
      return noteRequest(state, message);
    case "notification":
      return message.method === "session/cancel" && isRunning(state)
        ? { ...state, isCancelled: true }
        : state;
    case "result":
      return noteAnswer(dialect, state, { rpc: message.id, result: message.result });
    case "error":
      return noteAnswer(dialect, state, { rpc: message.id, result: undefined });
  }
}

function noteRequest(
  state: AcpState,
  { id, method, params }: { id: RpcId; method: string; params: Params },
): AcpState {
  const next = { ...state, sent: { ...state.sent, [String(id)]: method } };
  if (method === "session/new") return { ...next, servers: serversOf(params) };
  if (method !== "session/load" && method !== "session/resume") return next;
  const session = params["sessionId"];
  return {
    ...next,
    servers: serversOf(params),
    ...(typeof session === "string" ? { session } : {}),
    ...(method === "session/load" ? { isReplaying: true } : {}),
  };
}

function noteAnswer(
  dialect: AcpDialect,
  state: AcpState,
  { rpc, result }: { rpc: RpcId; result: unknown },
): AcpState {
  const found = findAsk(state.transcript, (ask) => ask.rpc === rpc);
  if (!found) return state;
  const [id, ask] = found;
  const next = withoutAsk(state, id);
  const answer = isRecord(result) ? toAnswer(dialect, ask, result) : undefined;
  if (ask.kind !== "permission" || answer?.type !== "permission" || answer.reply !== "reject") return next;
  return {
    ...next,
    denied: ask.call === undefined ? state.denied : [...state.denied, ask.call],
    words: answer.message === undefined ? state.words : [...state.words, answer.message],
  };
}

function serversOf({ mcpServers }: Params): string[] {
  return toRecords(mcpServers).flatMap(({ name }) => asText(name) ?? []);
}

/** The command of a line on stdin: the inverse of `encode`. */
export function toAcpCommand(
  dialect: AcpDialect,
  state: AcpState,
  line: SpoolLine,
): HarnessCommand | undefined {
  const message = parseRpc(line);
  if (!message) return undefined;
  if (message.kind === "notification") {
    return message.method === "session/cancel" ? { type: "interrupt" } : undefined;
  }
  if (message.kind === "request") {
    const { id, method, params } = message;
    const inputId = String(id);
    if (method === dialect.steer?.method) {
      return { type: "steer", inputId, content: [{ type: "text", text: dialect.steer.text(params) }] };
    }
    if (method !== "session/prompt" || inputId.endsWith(FEEDBACK)) return undefined;
    return { type: "prompt", inputId, content: fromBlocks(params["prompt"]) };
  }
  const found = findAsk(state.transcript, (ask) => ask.rpc === message.id);
  if (!found) return undefined;
  const [id, ask] = found;
  const result = toFields(message.kind === "result" ? message.result : undefined);
  const answer = toAnswer(dialect, ask, result);
  return answer === undefined ? undefined : ({ ...answer, id } as HarnessCommand);
}
