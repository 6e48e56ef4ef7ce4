import { z } from "zod";
import { ActionKind, Usage } from "./events.ts";

export const PermissionMode = z.enum(["default", "plan", "bypass", "acceptEdits"]);
export type PermissionMode = z.infer<typeof PermissionMode>;

export const McpServer = z.union([
  z.strictObject({
    type: z.literal("stdio").optional(),
    command: z.string(),
    args: z.array(z.string()).optional(),
    env: z.record(z.string(), z.string()).optional(),
  }),
  z.strictObject({
    type: z.enum(["http", "sse"]),
    url: z.url(),
    headers: z.record(z.string(), z.string()).optional(),
  }),
]);
export type McpServer = z.infer<typeof McpServer>;

export const RetryBudget = z.strictObject({
  tries: z.int().min(1).max(100).default(4),
  backoffMs: z.int().min(0).max(600_000).default(250),
});
export type RetryBudget = z.infer<typeof RetryBudget>;

export const Network = z.union([
  z.enum(["none", "loopback", "full"]),
  z.strictObject({
    allow: z.array(z.string().min(1)).describe("host, host:port or *.domain; loopback with its port"),
  }),
]);
export type Network = z.infer<typeof Network>;

export const SandboxLimits = z.strictObject({
  memoryBytes: z.int().min(1).optional(),
  processes: z.int().min(1).optional(),
  cpus: z.number().positive().optional().describe("in cores; may be a fraction"),
  diskBytes: z.int().min(1).optional(),
});
export type SandboxLimits = z.infer<typeof SandboxLimits>;

/** All that a session was asked to be. Stored once, when it is created. */
export const SessionSpec = z.strictObject({
  agent: z.string().min(1),
  agentMode: z.string().optional(),
  permissionMode: PermissionMode.optional(),
  model: z.string().optional(),
  variant: z.string().optional(),
  directory: z.string().optional(),
  title: z.string().optional(),
  mcp: z.record(z.string(), McpServer).optional(),
  skills: z.unknown().optional(),
  sandbox: z.string().optional(),
  image: z.string().optional(),
  network: Network.optional(),
  limits: SandboxLimits.optional(),
  env: z.record(z.string(), z.string()).optional(),
  metadata: z.record(z.string(), z.unknown()).optional(),
  /** Live file events and the diff at a turn's end; on unless switched off. */
  watch: z.boolean().optional(),
  /** A checkpoint at the end of every completed turn. */
  autoCheckpoint: z.boolean().optional(),
  turnTimeoutMs: z.int().min(1).optional(),
  retries: RetryBudget.optional(),
});
export type SessionSpec = z.infer<typeof SessionSpec>;

export const SessionStatus = z.enum(["idle", "running", "waiting", "retrying", "ended"]);
export type SessionStatus = z.infer<typeof SessionStatus>;

export const PendingAction = z.strictObject({
  kind: ActionKind,
  id: z.string(),
  turnId: z.string(),
  sequence: z.int().describe("where it was requested"),
  prompt: z.string().describe("the action, the question or the tool's name"),
  options: z.array(z.string()).optional(),
  input: z.unknown().optional(),
});
export type PendingAction = z.infer<typeof PendingAction>;

/** What `GET /v1/sessions/{id}` answers: a fold over the log, beside the spec. */
export const SessionInfo = z.strictObject({
  sessionId: z.string(),
  agent: z.string(),
  agentMode: z.string(),
  permissionMode: PermissionMode,
  model: z.string().nullable(),
  variant: z.string().nullable(),
  directory: z.string().nullable(),
  title: z.string().nullable(),
  sandbox: z.string(),
  nativeSessionId: z.string().nullable(),
  status: SessionStatus,
  ended: z.boolean(),
  paused: z.boolean(),
  turnId: z.string().nullable(),
  queued: z.int(),
  pendingActions: z.array(PendingAction),
  usage: Usage,
  eventCount: z.int(),
  createdAt: z.int().describe("milliseconds since 1970"),
  updatedAt: z.int(),
});
export type SessionInfo = z.infer<typeof SessionInfo>;
