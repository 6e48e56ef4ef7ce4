import { z } from "zod";
import type { SessionInfo, Usage } from "../../contract/index.ts";
import { toSessionId, toThreadId } from "./ids.ts";
import type { EnvironmentConfig } from "./resources/environment.ts";
import { Metadata, MetadataPatch } from "./resources/metadata.ts";
import { AgentChoice, type SessionAgent, SessionAgentUpdate } from "./resources/session-agent.ts";
import { ResourceParams, type SessionResource } from "./resources/session-resource.ts";
import { toTimestamp } from "./resources/stored.ts";
import { InitialEvents } from "./sendable.ts";

const Title = z.string().max(500);
const VaultIds = z.array(z.string().min(1)).max(50);

export const CreateSession = z.object({
  agent: AgentChoice,
  environment_id: z.string().min(1),
  title: Title.nullish(),
  metadata: Metadata.nullish(),
  resources: z.array(ResourceParams).max(999).nullish(),
  vault_ids: VaultIds.nullish(),
  budget: z.unknown().optional(),
  initial_events: InitialEvents.nullish(),
});
export type CreateSession = z.infer<typeof CreateSession>;

export const UpdateSession = z.object({
  title: Title.nullish(),
  metadata: MetadataPatch.nullish(),
  agent: SessionAgentUpdate.nullish(),
  vault_ids: VaultIds.nullish(),
  budget: z.unknown().optional(),
});
export type UpdateSession = z.infer<typeof UpdateSession>;

export const STATUSES = ["rescheduling", "running", "idle", "terminated"] as const;
export type Status = (typeof STATUSES)[number];

/** What a session is beside its log. */
export interface SessionBody {
  readonly agent: SessionAgent;
  readonly environment_id: string;
  /** What the environment was when the session was made. */
  readonly config: EnvironmentConfig;
  readonly title: string | null;
  readonly metadata: Metadata;
  readonly vault_ids: readonly string[];
  readonly resources: readonly SessionResource[];
  readonly archived_at: string | null;
  /** It is not yet all that was asked for. */
  readonly making?: boolean;
  /** A change that holds once the log says so: whoever wrote it may not have come to say that it did. */
  readonly pending?: PendingChange | null;
}

export interface PendingChange {
  /** The log's last event when it was asked for. */
  readonly after: number;
  readonly change: Partial<Pick<SessionBody, "title" | "metadata" | "agent" | "archived_at">>;
}

export function toStatus({ status, queued }: Pick<SessionInfo, "status" | "queued">): Status {
  if (status === "ended") return "terminated";
  if (status === "retrying") return "rescheduling";
  // What was accepted runs as soon as its agent has started: nobody may take it for done.
  if (status === "starting" || status === "running" || (status === "idle" && queued > 0)) return "running";
  return "idle";
}

/** Where it has a document, that one's times count: lists are filtered by them. */
export function toSession(
  body: SessionBody,
  info: SessionInfo,
  document?: { readonly createdAt: number; readonly updatedAt: number },
): object {
  return {
    id: toSessionId(info.sessionId),
    type: "session",
    agent: body.agent,
    environment_id: body.environment_id,
    title: body.title,
    metadata: body.metadata,
    status: toStatus(info),
    created_at: toTimestamp(document?.createdAt ?? info.createdAt),
    updated_at: toTimestamp(Math.max(info.updatedAt, document?.updatedAt ?? 0)),
    archived_at: body.archived_at,
    resources: body.resources,
    vault_ids: body.vault_ids,
    outcome_evaluations: [],
    budget: null,
    stats: toStats(info),
    usage: toUsage(info.usage),
    deployment_id: null,
  };
}

/** The one thread that a session has. */
export function toThread(body: SessionBody, info: SessionInfo): object {
  return {
    id: toThreadId(info.sessionId),
    type: "session_thread",
    session_id: toSessionId(info.sessionId),
    parent_thread_id: null,
    agent: body.agent,
    status: toStatus(info),
    stats: toStats(info),
    usage: toUsage(info.usage),
    created_at: toTimestamp(info.createdAt),
    updated_at: toTimestamp(info.updatedAt),
    archived_at: body.archived_at,
    workflow_run_id: null,
  };
}

function toStats({ createdAt, updatedAt }: SessionInfo): object {
  return { duration_seconds: Math.max(0, (updatedAt - createdAt) / 1000) };
}

function toUsage(usage: Usage): object {
  return {
    input_tokens: usage.input_tokens ?? 0,
    output_tokens: usage.output_tokens ?? 0,
    cache_read_input_tokens: usage.cache_read_tokens ?? 0,
    cache_creation: {
      ephemeral_5m_input_tokens: usage.cache_write_tokens ?? 0,
      ephemeral_1h_input_tokens: 0,
    },
    ...(usage.cost_usd === undefined
      ? {}
      : { list_cost: { amount: String(Math.round(usage.cost_usd * 10_000) / 100), currency: "USD" } }),
  };
}
