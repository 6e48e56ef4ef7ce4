import { z } from "zod";
import { listOf, Work, WorkHeartbeat, WorkQueueStats } from "../../../dialects/anthropic/answers/agents.ts";
import { CallbackReceipt, CallbackRun } from "../../../dialects/anthropic/answers/sessions.ts";
import { Callback, StopWork, UpdateWork } from "../../../dialects/anthropic/resources/work.ts";
import { defineOperations, json } from "../../operation.ts";
import { BETA, PREFIX } from "../dialect.ts";
import * as params from "../query.ts";

const WORK = `${PREFIX}/environments/{id}/work`;
const shared = { tag: "anthropic: work", requiredHeaders: BETA } as const;

const whole = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,9}$/, "expected a whole number")
    .transform(Number)
    .pipe(z.int().min(min).max(max))
    .optional();

export const workOperations = defineOperations({
  anthropicPollWork: {
    ...shared,
    method: "GET",
    path: `${WORK}/poll`,
    scope: "control",
    summary: "Claims the next session that needs a worker; null if none does",
    query: z.object({ block_ms: whole(1, 999), reclaim_older_than_ms: whole(0, 86_400_000) }),
    headers: { "anthropic-worker-id": "the name of the worker" },
    answer: json("The work, or null", Work.nullable()),
    errors: ["not_found"],
  },
  anthropicGetWorkStats: {
    ...shared,
    method: "GET",
    path: `${WORK}/stats`,
    scope: "read",
    summary: "How much work waits in an environment's queue",
    answer: json("The figures", WorkQueueStats),
    errors: ["not_found"],
  },
  anthropicListWork: {
    ...shared,
    method: "GET",
    path: WORK,
    scope: "read",
    summary: "The work of an environment, newest first",
    query: params.ListQuery,
    answer: json("A page of work", listOf(Work)),
    errors: ["not_found", "invalid_cursor"],
  },
  anthropicGetWork: {
    ...shared,
    method: "GET",
    path: `${WORK}/{work}`,
    scope: "read",
    summary: "One piece of work",
    answer: json("The work", Work),
    errors: ["not_found"],
  },
  anthropicUpdateWork: {
    ...shared,
    method: "POST",
    path: `${WORK}/{work}`,
    scope: "control",
    summary: "Changes the metadata of work",
    body: { kind: "json", schema: UpdateWork, optional: true },
    answer: json("The changed work", Work),
    errors: ["not_found", "too_large"],
  },
  anthropicAcknowledgeWork: {
    ...shared,
    method: "POST",
    path: `${WORK}/{work}/ack`,
    scope: "control",
    summary: "Keeps polled work for the worker",
    answer: json("The work", Work),
    errors: ["not_found", "session_busy"],
  },
  anthropicBeatWork: {
    ...shared,
    method: "POST",
    path: `${WORK}/{work}/heartbeat`,
    scope: "control",
    summary: "Extends the worker's lease on its work",
    query: z.object({ desired_ttl_seconds: whole(1, 3600), expected_last_heartbeat: params.text }),
    answer: json("The lease", WorkHeartbeat),
    errors: ["not_found", "session_busy", "precondition_failed"],
  },
  anthropicStopWork: {
    ...shared,
    method: "POST",
    path: `${WORK}/{work}/stop`,
    scope: "control",
    summary: "Asks the worker to stop, or ends the work with force",
    body: { kind: "json", schema: StopWork, optional: true },
    answer: json("The work", Work),
    errors: ["not_found", "session_busy", "too_large"],
  },
});

const CALLBACKS = `${PREFIX}/sessions/{id}/callbacks`;

export const callbackOperations = defineOperations({
  anthropicRegisterCallbacks: {
    ...shared,
    method: "POST",
    path: `${CALLBACKS}/register`,
    scope: "control",
    summary: "Registers a remote runner that may report to a session; an earlier one is replaced",
    answer: json("The runner's secret", CallbackRun),
    errors: ["session_not_found"],
  },
  anthropicReportCallback: {
    tag: shared.tag,
    method: "POST",
    path: CALLBACKS,
    scope: "open",
    summary: "Reports events of a remote runner, signed with its secret",
    requiredHeaders: {
      "sluice-timestamp": "seconds since 1970",
      "sluice-nonce": "8 to 128 letters, digits, underscores or hyphens, new for each report",
      "sluice-signature": "v1= and the HMAC-SHA256 of timestamp.nonce.body in hex",
    },
    body: { kind: "bytes", mime: "application/json", schema: Callback },
    answer: json("The receipt", CallbackReceipt),
    errors: ["token_invalid", "session_not_found", "session_ended", "idempotency_conflict", "too_large"],
  },
});
