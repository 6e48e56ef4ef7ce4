import { isRecord, type RpcError, type RpcId } from "../rpc.ts";
import { own, without } from "../transcript.ts";
import { change, type Reading, say } from "./reading.ts";
import { closePlanCall } from "./plan.ts";
import { failTurn, finish } from "./turns.ts";

/** Codex's answer to a request of ours. False where we asked nothing of the kind. */
export function hearResult(reading: Reading, id: RpcId, result: unknown): boolean {
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
      hearThread(reading, value);
      return true;
    // It names the turn before it can be interrupted; that it runs is said by itself.
    case "turn/start":
      return true;
    case NOTHING:
      closeIdle(reading, id);
      return true;
    default:
      return true;
  }
}

/** A request of ours that Codex refused. */
export function hearRefusal(reading: Reading, id: RpcId, { code, message }: RpcError): boolean {
  const method = take(reading, id);
  const { state, scribe } = reading;
  switch (method) {
    case undefined:
      return false;
    case "initialize":
    case "thread/start":
    case "thread/resume":
    case "thread/fork":
      // Told when a turn fails by it.
      change(reading, {
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
    case NOTHING:
      closeIdle(reading, id);
      return true;
    default:
      return true;
  }
}

/** A request that changes nothing: where Codex itself has nothing to end, a turn of ours ends with its response. */
export const NOTHING = "thread/loaded/list";

function openThread(reading: Reading): void {
  const { method, params } = reading.state.opening;
  reading.replies.push(say({ method: "initialized" }), say({ id: "thread", method, params }));
}

function hearThread(reading: Reading, value: Readonly<Record<string, unknown>>): void {
  const id = isRecord(value["thread"]) ? value["thread"]["id"] : undefined;
  if (typeof id !== "string") return;
  const { model } = value;
  change(reading, { thread: id, ...(typeof model === "string" ? { model } : {}) });
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
  if (method !== undefined) change(reading, { requests: without(requests, String(id)) });
  return method;
}
