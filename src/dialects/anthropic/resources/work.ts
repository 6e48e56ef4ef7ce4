import { z } from "zod";
import { type Metadata, MetadataPatch } from "./metadata.ts";
import { type Stored, toTimestamp } from "./stored.ts";

export const UpdateWork = z.object({ metadata: MetadataPatch.nullish() });
export const StopWork = z.object({ force: z.boolean().nullish() });

export type WorkState = "queued" | "starting" | "active" | "stopping" | "stopped";
export const OPEN_STATES = ["queued", "starting", "active"] as const satisfies readonly WorkState[];

export const DEFAULT_TTL_SECONDS = 90;

/** A session that wants a worker on the client's side, and how far that has come. */
export interface WorkBody {
  readonly session: string;
  readonly state: WorkState;
  readonly metadata: Metadata;
  readonly acknowledged_at: string | null;
  readonly started_at: string | null;
  readonly latest_heartbeat_at: string | null;
  /** What the worker knew of when it sent that. */
  readonly heartbeat_before?: string;
  readonly stop_requested_at: string | null;
  readonly stopped_at: string | null;
  /** When it was given out, and until when its worker has it; milliseconds since 1970. */
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

/** Whether nobody does it: never given out, never acknowledged, or left by a worker that is no more. */
export function isClaimable(
  { state, polled_at, lease_until }: WorkBody,
  { now, reclaimMs }: { now: number; reclaimMs: number },
): boolean {
  if (state === "queued") return polled_at === null || now - polled_at > reclaimMs;
  return lease_until !== null && lease_until < now;
}

/** `secret` is told to the worker that gets the work, and in no other answer. */
export function toWork(
  stored: Stored<WorkBody> & { parent: string | undefined },
  secret: string | null = null,
): object {
  const { session, polled_at: _, lease_until: __, heartbeat_before: ___, ...body } = stored.body;
  return {
    id: stored.id,
    type: "work",
    environment_id: stored.parent ?? "",
    data: { type: "session", id: session },
    secret,
    created_at: toTimestamp(stored.createdAt),
    ...body,
  };
}
