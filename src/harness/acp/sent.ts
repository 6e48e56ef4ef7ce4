import type { SpoolLine } from "../../contract/index.ts";
import { isRecord } from "../fields.ts";
import { type Params, type RpcId, toRpcMessage } from "../rpc.ts";
import { without } from "../transcript.ts";
import { parseObject } from "../line.ts";
import { toAnswer } from "./asks.ts";
import type { AcpDialect } from "./dialect.ts";
import { type AcpAsk, type AcpState, isRunning } from "./state.ts";
import type { HarnessCommand } from "../port.ts";
import { FEEDBACK } from "./turns.ts";
import { fromBlocks } from "./encode.ts";

/** The state after a line to the agent, for reading its answers. */
export function noteSent(dialect: AcpDialect, state: AcpState, line: SpoolLine): AcpState {
  const value = parseObject(line);
  const message = typeof value === "string" ? undefined : toRpcMessage(value);
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

/** Our id of the ask that an answer is for. */
export function findAsk(state: AcpState, rpc: RpcId): [string, AcpAsk] | undefined {
  return Object.entries(state.transcript.asks).find(([, ask]) => ask.rpc === rpc);
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
  const found = findAsk(state, rpc);
  if (!found) return state;
  const [id, ask] = found;
  const asks = without(state.transcript.asks, id);
  const next = { ...state, transcript: { ...state.transcript, asks } };
  const answer = isRecord(result) ? toAnswer(dialect, ask, result) : undefined;
  if (ask.kind !== "permission" || answer?.type !== "permission" || answer.reply !== "reject") return next;
  return {
    ...next,
    denied: ask.call === undefined ? state.denied : [...state.denied, ask.call],
    words: answer.message === undefined ? state.words : [...state.words, answer.message],
  };
}

function serversOf({ mcpServers }: Params): string[] {
  if (!Array.isArray(mcpServers)) return [];
  return mcpServers.filter(isRecord).flatMap(({ name }) => (typeof name === "string" ? [name] : []));
}

/** The command of a line on stdin: the inverse of `encode`. */
export function toAcpCommand(
  dialect: AcpDialect,
  state: AcpState,
  line: SpoolLine,
): HarnessCommand | undefined {
  const value = parseObject(line);
  const message = typeof value === "string" ? undefined : toRpcMessage(value);
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
  const found = findAsk(state, message.id);
  if (!found) return undefined;
  const [id, ask] = found;
  const result = message.kind === "result" && isRecord(message.result) ? message.result : {};
  const answer = toAnswer(dialect, ask, result);
  return answer === undefined ? undefined : ({ ...answer, id } as HarnessCommand);
}
