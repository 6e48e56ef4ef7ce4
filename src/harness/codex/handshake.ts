import { isRecord } from "../fields.ts";
import type { RpcError, RpcId } from "../rpc.ts";
import { own, without } from "../transcript.ts";
import { NO_OP } from "./encode.ts";
import { type Reading, toLine } from "./state.ts";
import { closePlanCall, failTurn, finish } from "./turns.ts";

/** Codex's response to a request of ours. False without such a request. */
export function readResult(reading: Reading, id: RpcId, result: unknown): boolean {
  const method = take(reading, id);
  const value = isRecord(result) ? result : {};
  switch (method) {
    case undefined:
      return false;
    case "initialize":
      openThread(reading);
      return true;
    case "thread/start":
    case "thread/resume":
    case "thread/fork":
      readThread(reading, value);
      return true;
    case NO_OP:
      closeIdle(reading, id);
      return true;
    default:
      return true;
  }
}

/** A request of ours that Codex refused. */
export function readRefusal(reading: Reading, id: RpcId, { code, message }: RpcError): boolean {
  const method = take(reading, id);
  const { state, scribe } = reading;
  switch (method) {
    case undefined:
      return false;
    case "initialize":
    case "thread/start":
    case "thread/resume":
    case "thread/fork":
      // Reported when a turn fails because of it.
      reading.change({
        broken: {
          code: method === "thread/resume" || method === "thread/fork" ? "resume_failed" : "internal",
          message: `${method}: ${message}`,
        },
      });
      return true;
    case "turn/start":
    case "thread/compact/start": {
      const { broken } = state;
      const error = broken ?? { code: "invalid_request", message };
      // Without its conversation the session has nothing to go on with.
      failTurn(reading, { error, stopReason: broken === undefined ? "end_turn" : "model_error" });
      return true;
    }
    case "turn/steer":
      scribe.add({
        type: "error",
        data: {
          code: "steer_failed",
          message: `the message did not reach the running turn: ${message}`,
          details: { code },
        },
      });
      return true;
    case NO_OP:
      closeIdle(reading, id);
      return true;
    default:
      return true;
  }
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
  reading.scribe.add({ type: "session.started", native_session_id: id, data: {} });
}

function closeIdle(reading: Reading, id: RpcId): void {
  const [purpose] = String(id).split(":");
  closePlanCall(reading);
  if (purpose === "halt") finish(reading, { status: "interrupted", stop_reason: "interrupted" });
  if (purpose === "plan") finish(reading, { status: "completed", stop_reason: "end_turn" });
}

function take(reading: Reading, id: RpcId): string | undefined {
  const { requests } = reading.state;
  const method = own(requests, String(id));
  if (method !== undefined) reading.change({ requests: without(requests, String(id)) });
  return method;
}
