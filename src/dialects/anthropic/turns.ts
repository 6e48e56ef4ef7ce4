import type {
  BetaManagedAgentsSessionErrorEvent,
  BetaManagedAgentsSessionStatusIdleEvent,
} from "@anthropic-ai/sdk/resources/beta/sessions";
import { type EventData, type EventError, own } from "../../contract/index.ts";
import type { Projectors } from "../shared/projection.ts";
import { type AnthropicProjection, toSentEvents, toUserMessage } from "./projection.ts";
import { type Arrived, CLEAN } from "./state.ts";
import { releaseAll } from "./tool-calls.ts";

/** Inputs, turns, and the end of the session. */
export const turnProjectors: Projectors<AnthropicProjection> = {
  /** Input during a turn appears at once as queued, and again when its own turn starts. */
  "input.accepted": (projection, { data, sequence }) => {
    const { input_id: inputId, turn_id: turnId, payload } = data;
    if (payload === undefined || turnId === projection.state.turn) return;
    const arrived = { inputId, sequence, payload };
    if (projection.state.turn === null)
      projection.change({ arrived: [...projection.state.arrived, arrived] });
    else queue(projection, arrived);
  },

  /** The next turn must not show a withdrawn input, nor the old text of a replaced one. */
  "input.withdrawn": (projection, { data }) => leaveOut(projection, data.input_id),
  "input.replaced": (projection, { data }) => leaveOut(projection, data.input_id),

  "turn.started": (projection, { data }) => {
    const { turn_id: turn, input_ids: ids, inputs = [] } = data;
    const { arrived } = projection.state;
    for (const { sequence, payload, content } of inputs) {
      const events = content ? [toUserMessage(content)] : toSentEvents(payload);
      for (const [index, { type, ...fields }] of events.entries())
        projection.echo(type, fields, projection.idOf(sequence, index));
    }
    projection.emit("session.status_running", {});
    for (const input of arrived) if (!ids.includes(input.inputId)) queue(projection, input);
    const echoed = inputs.map(({ input_id }) => input_id.replace(/^inp_/, "itm_"));
    projection.change({ ...CLEAN, turn, arrived: [], echoed });
  },

  "turn.waiting": (projection, { data }) => {
    releaseAll(projection);
    emitFailures(projection, { isHalt: true });
    const event_ids = data.actions.flatMap(({ id }) => own(projection.state.requests, id)?.eventId ?? []);
    projection.emit("session.status_idle", {
      stop_reason: { type: "requires_action", event_ids },
      stop_details: null,
    });
  },

  "turn.retrying": (projection, { data, sequence }) => {
    releaseAll(projection);
    projection.change({ failures: projection.state.failures.filter(({ isOfEngine }) => isOfEngine) });
    projection.emit("session.error", { error: toSessionError(data.error, "retrying") });
    projection.emit("session.status_rescheduled", {}, projection.idOf(sequence, 1));
  },

  "turn.ended": (projection, { data, sequence }) => {
    releaseAll(projection);
    emitFailures(projection, { isHalt: true, reported: data.error?.message });
    const isEnding = isTerminal(data);
    if (data.status === "failed" && data.error?.code !== "session_ended") {
      const error = data.error ?? { code: data.stop_reason, message: `the turn failed: ${data.stop_reason}` };
      projection.emit("session.error", { error: toSessionError(error, isEnding ? "terminal" : "exhausted") });
    }
    // `session.ended` follows; the session must not look idle in between.
    if (!isEnding) projection.emit("session.status_idle", toStop(data), projection.idOf(sequence, 1));
    projection.change({ ...CLEAN, turn: null, isEnding });
  },

  "session.ended": (projection, { data, sequence }) => {
    if (data.reason === "error" && !projection.state.isEnding) {
      const error = { message: data.message ?? "the session ended with an error" };
      projection.emit("session.error", { error: toSessionError(error, "terminal") });
    }
    projection.emit("session.status_terminated", {}, projection.idOf(sequence, 1));
  },

  /**
   * Emits a failure at once if no turn runs, or if the turn goes on in spite of it. Keeps any other failure: either the
   * turn's end reports it, or it is emitted when the turn continues.
   */
  error: (projection, { data, source, sequence }) => {
    const { code, message, details } = data;
    if (projection.state.turn === null || isBesideTurn(code)) {
      const retry = code?.startsWith("repository_") ? "retrying" : "exhausted";
      return void projection.emit("session.error", {
        error: toSessionError({ code, message }, retry, details),
      });
    }
    const isOfRetry = typeof (details as { retrying?: unknown } | undefined)?.retrying === "boolean";
    // `turn.retrying` or the turn's end reports the error of a retry.
    if (isOfRetry) return;
    const isOfEngine = source === "daemon";
    const failure = { ...(code === undefined ? {} : { code }), message, sequence, isOfEngine };
    projection.change({ failures: [...projection.state.failures, failure] });
  },
};

/**
 * Emits the kept failures, except the one that the turn's end reports itself: `reported` is its message. Those of the
 * engine wait until the turn halts: output of the agent may stand between such a failure and the end that reports it.
 */
export function emitFailures(
  projection: AnthropicProjection,
  { isHalt = false, reported }: { isHalt?: boolean; reported?: string | undefined } = {},
): void {
  const isDue = ({ isOfEngine }: { isOfEngine: boolean }): boolean => isHalt || !isOfEngine;
  const due = projection.state.failures.filter(isDue);
  if (due.length === 0) return;
  projection.change({ failures: projection.state.failures.filter((failure) => !isDue(failure)) });
  for (const { sequence, isOfEngine: _, ...failure } of due) {
    if (failure.message === reported) continue;
    projection.emit(
      "session.error",
      { error: toSessionError(failure, "exhausted") },
      projection.idOf(sequence),
    );
  }
}

/** Whether the session ends with the turn. */
export function isTerminal({
  stop_reason: reason,
  session_lasts: lasts,
}: Pick<EventData<"turn.ended">, "stop_reason" | "session_lasts">): boolean {
  return ENDS_SESSION.has(reason) && lasts !== true;
}

function leaveOut(projection: AnthropicProjection, inputId: string): void {
  projection.change({ arrived: projection.state.arrived.filter((input) => input.inputId !== inputId) });
}

function queue(projection: AnthropicProjection, { sequence, payload }: Arrived): void {
  for (const [index, { type, ...fields }] of toSentEvents(payload).entries())
    projection.queue(type, fields, projection.idOf(sequence, index));
}

function toStop({ status, stop_reason: reason, details }: EventData<"turn.ended">): Stop {
  if (reason === "refusal") {
    const { reason: explanation, category } = (details ?? {}) as { reason?: unknown; category?: unknown };
    return {
      stop_reason: { type: "refusal" },
      stop_details: {
        type: "refusal",
        category: typeof category === "string" ? (category as RefusalCategory) : null,
        explanation: typeof explanation === "string" ? explanation : null,
      },
    };
  }
  const type = status === "failed" ? "retries_exhausted" : "end_turn";
  return { stop_reason: { type }, stop_details: null };
}

const ENDS_SESSION: ReadonlySet<string> = new Set(["model_error", "agent_exited", "terminated"]);

type SessionError = BetaManagedAgentsSessionErrorEvent["error"];
type RefusalCategory = NonNullable<BetaManagedAgentsSessionStatusIdleEvent["stop_details"]>["category"];
type Stop = Pick<BetaManagedAgentsSessionStatusIdleEvent, "stop_reason" | "stop_details">;

export type RetryStatus = "retrying" | "exhausted" | "terminal";

/** The `error` of a `session.error` event. */
function toSessionError(
  error: Pick<EventError, "message"> & { code?: string | undefined },
  retry: RetryStatus,
  details?: unknown,
): SessionError {
  const type = TYPES[error.code ?? ""] ?? "unknown_error";
  const common = { type, message: error.message, retry_status: { type: retry } };
  if (type.startsWith("mcp_"))
    return { ...common, mcp_server_name: readText(details, "server") ?? "" } as SessionError;
  if (type.startsWith("credential_")) {
    const [credential_id, vault_id] = ["credential_id", "vault_id"].map(
      (key) => readText(details, key) ?? "",
    );
    return { ...common, credential_id, vault_id } as SessionError;
  }
  if (type.startsWith("repository_"))
    return { ...common, repository_url: readText(details, "repository_url") ?? null } as SessionError;
  return common as SessionError;
}

/** Whether the turn goes on in spite of the failure. */
function isBesideTurn(code: string | undefined): boolean {
  return RUNNER_ERROR.test(code ?? "") || /^(mcp|repository|credential)_/.test(TYPES[code ?? ""] ?? "");
}

/** Reports of a remote runner. */
const RUNNER_ERROR = /^runner(_|$)/;

const TYPES: Readonly<Record<string, string>> = {
  overloaded: "model_overloaded_error",
  rate_limited: "model_rate_limited_error",
  bad_gateway: "model_request_failed_error",
  server_error: "model_request_failed_error",
  network: "model_request_failed_error",
  terminal: "model_request_failed_error",
  unauthorized: "model_request_failed_error",
  invalid_request: "model_request_failed_error",
  context_length: "compaction_limit_reached_error",
  billing: "billing_error",
  max_turns: "tool_use_limit_reached_error",
  mcp_connection_failed: "mcp_connection_failed_error",
  mcp_authentication_failed: "mcp_authentication_failed_error",
  credential_host_unreachable: "credential_host_unreachable_error",
  repository_authentication: "repository_authentication_error",
  repository_forbidden: "repository_forbidden_error",
  repository_not_found: "repository_not_found_error",
  repository_checkout: "repository_checkout_error",
  repository_clone: "repository_clone_error",
};

function readText(value: unknown, key: string): string | undefined {
  const found = (value as Record<string, unknown> | null | undefined)?.[key];
  return typeof found === "string" ? found : undefined;
}
