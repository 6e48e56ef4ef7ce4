import type { BetaSelfHostedWork } from "@anthropic-ai/sdk/resources/beta/environments";
import { z } from "zod";
import { type Metadata, MetadataPatch, type Stored, toTimestamp } from "./resource.ts";

export const UpdateWork = z.object({ metadata: MetadataPatch.nullish() });
export const StopWork = z.object({ force: z.boolean().nullish() });

export type WorkState = "queued" | "starting" | "active" | "stopping" | "stopped";
export const OPEN_STATES = ["queued", "starting", "active"] as const satisfies readonly WorkState[];

export const DEFAULT_TTL_SECONDS = 90;

/** A session that needs a worker on the client's side, and the state of that work. */
export interface WorkBody {
  readonly session: string;
  readonly state: WorkState;
  readonly metadata: Metadata;
  readonly acknowledged_at: string | null;
  readonly started_at: string | null;
  readonly latest_heartbeat_at: string | null;
  /** The heartbeat before the latest one, as the worker sent it. */
  readonly heartbeat_before?: string;
  readonly stop_requested_at: string | null;
  readonly stopped_at: string | null;
  /** The time of the worker's poll, and the end of its lease; milliseconds since 1970. */
  readonly polled_at: number | null;
  readonly lease_until: number | null;
}

export function newWork(session: string): WorkBody {
  return {
    session,
    state: "queued",
    metadata: {},
    acknowledged_at: null,
    started_at: null,
    latest_heartbeat_at: null,
    stop_requested_at: null,
    stopped_at: null,
    polled_at: null,
    lease_until: null,
  };
}

/**
 * Whether a worker may take the work: no worker polled it, the last one did not acknowledge it in time, or its lease
 * expired.
 */
export function isClaimable(
  { state, polled_at, lease_until }: WorkBody,
  { now, reclaimMs }: { now: number; reclaimMs: number },
): boolean {
  if (state === "queued") return polled_at === null || now - polled_at > reclaimMs;
  return lease_until !== null && lease_until < now;
}

/** `secret` goes only to the worker that polls the work. */
export function toWork(
  stored: Stored<WorkBody> & { parent: string | undefined },
  secret: string | null = null,
) {
  const { session, polled_at: _, lease_until: __, heartbeat_before: ___, ...body } = stored.body;
  return {
    id: stored.id,
    type: "work",
    environment_id: stored.parent ?? "",
    data: { type: "session", id: session },
    secret,
    created_at: toTimestamp(stored.createdAt),
    ...body,
  } satisfies BetaSelfHostedWork;
}

/** Names that dialects interpret; a runner must not use them. */
const RESERVED = /^(sluice|universal|anthropic|ag-ui|ndjson|acp)\./;

const Custom = z.strictObject({
  type: z.literal("custom"),
  name: z
    .string()
    .min(1)
    .max(256)
    .refine((name) => !RESERVED.test(name), "the name is reserved"),
  value: z.unknown(),
});

const ErrorReport = z.strictObject({
  type: z.literal("error"),
  message: z.string().min(1).max(10_000),
  code: z
    .string()
    .regex(/^[a-z0-9_]{1,64}$/, "expected lower-case letters, digits and underscores")
    .optional(),
  details: z.unknown().optional(),
});

/** A remote runner's report; all of its events reach the log, or none. */
export const Callback = z.strictObject({
  run_id: z.string().min(1).max(128),
  events: z
    .array(z.discriminatedUnion("type", [Custom, ErrorReport]))
    .min(1)
    .max(100),
});
export type Callback = z.infer<typeof Callback>;

/** The runner that may report to a session. */
export interface CallbackRunBody {
  readonly run_id: string;
  /** The session's tenant. */
  readonly owner: string;
  /** Distinguishes the session from a later one of the same id. */
  readonly session_created_at: number;
}
