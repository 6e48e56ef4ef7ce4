import { isRecord, toFields } from "../fields.ts";
import type { RpcError, RpcId } from "../rpc.ts";
import { own, without } from "../transcript.ts";
import { NO_OP } from "./encode.ts";
import { type Reading, toLine } from "./state.ts";
import { closePlanCall, failTurn, finish } from "./turns.ts";

/** Codex's response to a request of ours. False without such a request. */
export function readResult(reading: Reading, id: RpcId, result: unknown): boolean {
  const method = takeMethod(reading, id);
  if (method === "initialize") openThread(reading);
  if (method !== undefined && OPENING.has(method)) readThread(reading, toFields(result));
  if (method === NO_OP) closeIdle(reading, id);
  return method !== undefined;
}

const OPENING: ReadonlySet<string> = new Set(["thread/start", "thread/resume", "thread/fork"]);

/** Codex's refusal of a request of ours. False without such a request. */
export function readRefusal(reading: Reading, id: RpcId, { code, message }: RpcError): boolean {
  const method = takeMethod(reading, id);
  switch (method) {
    case "initialize":
    case "thread/start":
    case "thread/resume":
    case "thread/fork":
      // The error is reported when a turn fails because of it.
      reading.change({
        broken: {
          code: method === "thread/resume" || method === "thread/fork" ? "resume_failed" : "internal",
          message: `${method}: ${message}`,
        },
      });
      break;
    case "turn/start":
    case "thread/compact/start": {
      const { broken } = reading.state;
      const error = broken ?? { code: "invalid_request", message };
      // The session cannot continue without its conversation.
      failTurn(reading, { error, stopReason: broken === undefined ? "end_turn" : "model_error" });
      break;
    }
    case "turn/steer": {
      const lost = `the message did not reach the running turn: ${message}`;
      reading.scribe.error({ code: "steer_failed", message: lost }, { details: { code } });
      break;
    }
    case NO_OP:
      closeIdle(reading, id);
  }
  return method !== undefined;
}

function openThread(reading: Reading): void {
  const { method, params } = reading.state.opening;
  reading.replies.push(toLine({ method: "initialized" }), toLine({ id: "thread", method, params }));
}

function readThread(reading: Reading, value: Readonly<Record<string, unknown>>): void {
  const id = isRecord(value["thread"]) ? value["thread"]["id"] : undefined;
  if (typeof id !== "string") return;
  const { model } = value;
  reading.change({ thread: id, ...(typeof model === "string" ? { model } : {}) });
  reading.scribe.session(id);
}

/** Ends our turn by the response to `NO_OP`: Codex itself has no turn to end. */
function closeIdle(reading: Reading, id: RpcId): void {
  const [purpose] = String(id).split(":");
  closePlanCall(reading);
  if (purpose === "halt") finish(reading, { status: "interrupted", stop_reason: "interrupted" });
  if (purpose === "plan") finish(reading, { status: "completed", stop_reason: "end_turn" });
}

/** Takes the method of our request out of the state, so that a second response is unknown. */
function takeMethod(reading: Reading, id: RpcId): string | undefined {
  const { requests } = reading.state;
  const method = own(requests, String(id));
  if (method !== undefined) reading.change({ requests: without(requests, String(id)) });
  return method;
}
