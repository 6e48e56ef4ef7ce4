import type { SpoolLine } from "../../contract/index.ts";
import type { HarnessCommand } from "../port.ts";
import { isRecord, toRpcMessage } from "../rpc.ts";
import { parseObject } from "../unparsed.ts";
import { toAnswer } from "./answers.ts";
import type { AcpDialect } from "./dialect.ts";
import { WORDS } from "./ending.ts";
import { fromBlocks } from "./prompt.ts";
import { findAsk } from "./sent.ts";
import type { AcpState } from "./state.ts";

/** What a line on the agent's stdin tells it: the way back from `encode`. */
export function overhearAcp(
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
    if (method !== "session/prompt" || inputId.endsWith(WORDS)) return undefined;
    return { type: "prompt", inputId, content: fromBlocks(params["prompt"]) };
  }
  const found = findAsk(state, message.id);
  if (!found) return undefined;
  const [id, ask] = found;
  const result = message.kind === "result" && isRecord(message.result) ? message.result : {};
  const answer = toAnswer(dialect, ask, result);
  return answer === undefined ? undefined : ({ ...answer, id } as HarnessCommand);
}
