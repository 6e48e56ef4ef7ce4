import type {
  BetaManagedAgentsSession,
  BetaManagedAgentsSessionStats,
  BetaManagedAgentsSessionThread,
  BetaManagedAgentsSessionUsage,
} from "@anthropic-ai/sdk/resources/beta/sessions";
import { z } from "zod";
import type { SessionInfo, Usage } from "../../../contract/index.ts";
import { toSessionId, toThreadId } from "../ids.ts";
import { InitialEvents } from "../parse.ts";
import type { EnvironmentConfig } from "./environment.ts";
import { type Immutable, Metadata, MetadataPatch, refuse, toTimestamp, unsupported } from "./resource.ts";
import { AgentChoice, type SessionAgent, SessionAgentUpdate } from "./session-agent.ts";

const MountPath = z
  .string()
  .max(1024)
  .regex(/^\/(?!.*(^|\/)\.\.(\/|$))/, "expected an absolute path without ..")
  .nullish();

export const FileResourceParams = z.object({
  type: z.literal("file"),
  file_id: z.string().min(1),
  mount_path: MountPath,
});
export type FileResourceParams = z.infer<typeof FileResourceParams>;

export const Checkout = z.discriminatedUnion("type", [
  z.object({ type: z.literal("branch"), name: z.string().min(1).max(255) }),
  z.object({
    type: z.literal("commit"),
    sha: z.string().regex(/^[0-9a-f]{7,64}$/i, "expected a commit's hash"),
  }),
]);
export type Checkout = z.infer<typeof Checkout>;

const RepositoryParams = z.object({
  type: z.literal("github_repository"),
  url: z.url({ protocol: /^(https?|file)$/, error: "expected the URL of a repository" }),
  authorization_token: z.string().min(1).optional(),
  checkout: Checkout.nullish(),
  mount_path: MountPath,
});
export type RepositoryParams = z.infer<typeof RepositoryParams>;

export const ResourceParams = z.discriminatedUnion("type", [FileResourceParams, RepositoryParams], {
  error: ({ input }) =>
    (input as { type?: unknown } | undefined)?.type === "memory_store"
      ? unsupported("memory stores are").message
      : "expected a file or a github_repository",
});
export type ResourceParams = z.infer<typeof ResourceParams>;

interface Resource {
  readonly id: string;
  readonly mount_path: string;
  readonly created_at: string;
  readonly updated_at: string;
}

export interface FileResource extends Resource {
  readonly type: "file";
  /** The id of the session's own copy of the file. */
  readonly file_id: string;
}

export interface RepositoryResource extends Resource {
  readonly type: "github_repository";
  readonly url: string;
  readonly checkout?: Checkout | null;
}

export type SessionResource = FileResource | RepositoryResource;

export const UPLOADS = "/mnt/session/uploads";

/** The default path of a repository: its name below the workspace. */
export function toRepositoryPath(url: string): string {
  const name =
    new URL(url).pathname
      .replace(/\/+$/, "")
      .split("/")
      .at(-1)
      ?.replace(/\.git$/, "") ?? "";
  if (!/^[\w.-]+$/.test(name) || name === "." || name === "..")
    throw refuse(`resources: ${url} names no repository. Give a mount_path.`);
  return `/workspace/${name}`;
}

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

/** The data of a session that is not in its log. */
export interface SessionBody {
  readonly agent: SessionAgent;
  readonly environment_id: string;
  /** The environment at the session's creation. */
  readonly config: EnvironmentConfig;
  readonly title: string | null;
  readonly metadata: Metadata;
  readonly vault_ids: readonly string[];
  readonly resources: readonly SessionResource[];
  readonly archived_at: string | null;
  /** Whether the session's creation is incomplete. */
  readonly making?: boolean;
  /** A change that holds only if the log has it too: a crash may have come between the two writes. */
  readonly pending?: PendingChange | null;
}

export interface PendingChange {
  /** The key that the log keeps with the change. Absent in a document of an older server. */
  readonly key?: string;
  readonly change: Partial<Pick<SessionBody, "title" | "metadata" | "agent" | "archived_at">>;
}

export function toStatus({ status, queued }: Pick<SessionInfo, "status" | "queued">): Status {
  if (status === "ended") return "terminated";
  if (status === "retrying") return "rescheduling";
  // Accepted input runs as soon as its agent has started, so the session is not idle.
  if (status === "starting" || status === "running" || (status === "idle" && queued > 0)) return "running";
  return "idle";
}

/** The times are those of the catalog's document, if there is one: lists filter by them. */
export function toSession(
  body: SessionBody,
  info: SessionInfo,
  document?: { readonly createdAt: number; readonly updatedAt: number },
) {
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
  } satisfies Immutable<BetaManagedAgentsSession>;
}

/** A session's one thread. */
export function toThread(body: SessionBody, info: SessionInfo) {
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
  } satisfies Immutable<BetaManagedAgentsSessionThread>;
}

function toStats({ createdAt, updatedAt }: SessionInfo): BetaManagedAgentsSessionStats {
  return { duration_seconds: Math.max(0, (updatedAt - createdAt) / 1000) };
}

function toUsage(usage: Usage): BetaManagedAgentsSessionUsage {
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
