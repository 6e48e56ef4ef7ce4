import { own } from "../../contract/ownKeys.ts";
import type { EventData, EventOf } from "../../contract/index.ts";
import { releaseAll } from "./calls.ts";
import { isBesideRun, toSessionError } from "./failure.ts";
import { toSentEvents } from "./payload.ts";
import { CLEAN, type Arrived } from "./state.ts";
import type { Teller } from "./teller.ts";

/** Input that arrives while a turn runs is told at once, and again when its own turn takes it up. */
export function tellAccepted(teller: Teller, { data, sequence }: EventOf<"input.accepted">): void {
  const { input_id: inputId, turn_id: turnId, payload } = data;
  if (payload === undefined || turnId === teller.state.turn) return;
  const arrived = { inputId, sequence, payload };
  if (teller.state.turn === null) teller.change({ arrived: [...teller.state.arrived, arrived] });
  else queue(teller, arrived);
}

export function tellTurnStarted(teller: Teller, { data }: EventOf<"turn.started">): void {
  const { turn_id: turn, input_ids: ids, inputs = [] } = data;
  const { arrived, doomed } = teller.state;
  for (const { sequence, payload } of inputs) {
    for (const [index, { type, ...fields }] of toSentEvents(payload).entries())
      teller.say(type, fields, teller.idOf(sequence, index));
  }
  teller.say("session.status_running");
  for (const input of arrived) if (!ids.includes(input.inputId)) queue(teller, input);
  const echoed = inputs.map(({ input_id }) => input_id.replace(/^inp_/, "itm_"));
  teller.change({ ...CLEAN, turn, arrived: [], echoed, doomed });
}

export function tellWaiting(teller: Teller, { data }: EventOf<"turn.waiting">): void {
  releaseAll(teller);
  tellFailures(teller);
  const event_ids = data.actions.flatMap(({ id }) => own(teller.state.requests, id)?.eventId ?? []);
  teller.say("session.status_idle", {
    stop_reason: { type: "requires_action", event_ids },
    stop_details: null,
  });
}

export function tellRetrying(teller: Teller, { data, sequence }: EventOf<"turn.retrying">): void {
  releaseAll(teller);
  teller.change({ failures: [] });
  teller.say("session.error", { error: toSessionError(data.error, "retrying") });
  teller.say("session.status_rescheduled", {}, teller.idOf(sequence, 1));
}

export function tellTurnEnded(teller: Teller, { data, sequence }: EventOf<"turn.ended">): void {
  releaseAll(teller);
  tellFailures(teller, data.error?.message);
  const isDoomed = isTerminal(data);
  if (data.status === "failed" && data.error?.code !== "session_ended") {
    const error = data.error ?? { code: data.stop_reason, message: `the turn failed: ${data.stop_reason}` };
    teller.say("session.error", { error: toSessionError(error, isDoomed ? "terminal" : "exhausted") });
  }
  // The session's own end follows: it never was idle.
  if (!isDoomed) teller.say("session.status_idle", toStop(data), teller.idOf(sequence, 1));
  teller.change({ ...CLEAN, turn: null, doomed: isDoomed });
}

export function tellSessionEnded(teller: Teller, { data, sequence }: EventOf<"session.ended">): void {
  if (data.reason === "error" && !teller.state.doomed) {
    const error = { message: data.message ?? "the session ended with an error" };
    teller.say("session.error", { error: toSessionError(error, "terminal") });
  }
  teller.say("session.status_terminated", {}, teller.idOf(sequence, 1));
}

/** A failure that the turn ends with is told by its end, every other where it happened or as soon as the turn goes on. */
export function tellError(teller: Teller, { data, source, sequence }: EventOf<"error">): void {
  const { code, message, details } = data;
  if (isBesideRun(code)) {
    const retry = code?.startsWith("repository_") ? "retrying" : "exhausted";
    return void teller.say("session.error", { error: toSessionError({ code, message }, retry, details) });
  }
  const isOfRetry = typeof (details as { retrying?: unknown } | undefined)?.retrying === "boolean";
  if (source === "daemon" || isOfRetry) return;
  const failure = { ...(code === undefined ? {} : { code }), message, sequence };
  teller.change({ failures: [...teller.state.failures, failure] });
}

export function tellFailures(teller: Teller, toldBy?: string): void {
  const { failures } = teller.state;
  if (failures.length === 0) return;
  teller.change({ failures: [] });
  for (const { sequence, ...failure } of failures) {
    if (failure.message === toldBy) continue;
    teller.say("session.error", { error: toSessionError(failure, "exhausted") }, teller.idOf(sequence));
  }
}

/** Whether the session's own end follows. */
export function isTerminal({ stop_reason: reason }: Pick<EventData<"turn.ended">, "stop_reason">): boolean {
  return ENDS_SESSION.has(reason);
}

function queue(teller: Teller, { sequence, payload }: Arrived): void {
  for (const [index, { type, ...fields }] of toSentEvents(payload).entries())
    teller.queue(type, fields, teller.idOf(sequence, index));
}

function toStop({ status, stop_reason: reason, details }: EventData<"turn.ended">): object {
  if (reason === "refusal") {
    const { reason: explanation, category } = (details ?? {}) as { reason?: unknown; category?: unknown };
    return {
      stop_reason: { type: "refusal" },
      stop_details: {
        type: "refusal",
        category: typeof category === "string" ? category : null,
        explanation: typeof explanation === "string" ? explanation : null,
      },
    };
  }
  const type = status === "failed" ? "retries_exhausted" : "end_turn";
  return { stop_reason: { type }, stop_details: null };
}

const ENDS_SESSION: ReadonlySet<string> = new Set(["model_error", "agent_exited", "terminated"]);
