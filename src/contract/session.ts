import { z } from "zod";
import { ActionKind, Budget, PerMinute, RetryBudget, Usage } from "./event-fields.ts";

export const PermissionMode = z.enum(["default", "plan", "bypass", "acceptEdits"]);
export type PermissionMode = z.infer<typeof PermissionMode>;

export const McpServer = z.union([
  z.strictObject({
    type: z.literal("stdio").optional(),
    command: z.string(),
    args: z.array(z.string()).optional(),
    env: z.record(z.string(), z.string()).optional(),
    inherit: z
      .array(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/))
      .optional()
      .describe(
        "variables of the agent's environment that the server gets, even if the agent withholds all others",
      ),
    timeoutMs: z
      .int()
      .min(1)
      .optional()
      .describe("the time limit of one call, for agents that have such a limit"),
  }),
  z.strictObject({
    type: z.enum(["http", "sse"]),
    url: z.url(),
    headers: z.record(z.string(), z.string()).optional(),
  }),
]);
export type McpServer = z.infer<typeof McpServer>;

export const Skill = z.strictObject({
  name: z.string().regex(/^[a-z0-9][a-z0-9-]{0,63}$/, "lower-case letters, digits and dashes"),
  description: z.string().min(1),
  content: z.string().describe("Markdown, without the front matter"),
});
export type Skill = z.infer<typeof Skill>;

/** `deny` switches the tool off without a question. */
export const ToolRule = z.enum(["allow", "ask", "deny"]);
export type ToolRule = z.infer<typeof ToolRule>;

/**
 * The rules for tools, and the tools that the application runs. Names are the common names (`bash`, `read`, `write`,
 * `edit`, `glob`, `grep`, `web_fetch`, `web_search`), `mcp__server__tool`, `mcp__server__*`, and `*` for all built-in
 * tools.
 */
export const ToolSettings = z.strictObject({
  rules: z.record(z.string(), ToolRule).optional(),
  /** Built-in tools that the application runs instead of the agent. */
  client: z.array(z.string()).optional(),
  /** Tools that only the application has. */
  custom: z
    .array(
      z.strictObject({
        name: z.string().regex(/^[A-Za-z0-9_-]{1,128}$/),
        description: z.string(),
        inputSchema: z.record(z.string(), z.unknown()),
      }),
    )
    .optional(),
});
export type ToolSettings = z.infer<typeof ToolSettings>;

const ModelName = z.string().regex(/^[\w.:/@+-]{1,200}$/, "letters, digits and . : / @ + - _");

export const Network = z.union([
  z.enum(["none", "loopback", "full"]),
  z.strictObject({
    allow: z
      .array(z.string().min(1))
      .describe("host, host:port or *.domain; * is every public host; loopback needs a port"),
    private: z
      .array(z.string().min(1))
      .optional()
      .describe(
        "names that may resolve to a private network (host, host:port or *.domain), if `allow` or the agent's own hosts include them; every other name must resolve to a public address",
      ),
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

export const CassetteSpec = z.strictObject({
  file: z
    .string()
    .min(1)
    .max(4_096)
    .describe(
      "a name below `cassettes/` of the data folder, or an absolute path, which only the operator may give",
    ),
  mode: z
    .enum(["record", "replay", "auto"])
    .describe("`replay` calls no model provider; `auto` replays, and records the requests that are missing"),
  speed: z
    .number()
    .min(0)
    .max(1_000)
    .optional()
    .describe("of a replay: 0 (the default) is at once, 1 as it was recorded, 2 twice as fast"),
});
export type CassetteSpec = z.infer<typeof CassetteSpec>;

/** The settings of a session, stored at its creation. */
export const SessionSpec = z.strictObject({
  agent: z.string().min(1),
  /** The program of an `acp` agent. */
  command: z.array(z.string()).min(1).optional(),
  agentMode: z.string().optional(),
  permissionMode: PermissionMode.optional(),
  model: z.string().optional(),
  variant: z.string().optional(),
  directory: z.string().optional(),
  title: z.string().optional(),
  mcp: z.record(z.string(), McpServer).optional(),
  tools: ToolSettings.optional(),
  /** Replaces the agent's system prompt if its CLI allows that, else comes before the instructions. */
  systemPrompt: z.string().optional(),
  /** Added to the agent's system prompt. */
  instructions: z.string().optional(),
  /** Instructions that the agent reads on demand, in the CLI's folder for skills. Some clients send empty `sources`. */
  skills: z.union([z.array(Skill), z.strictObject({ sources: z.array(z.unknown()).max(0) })]).optional(),
  sandbox: z.string().optional(),
  image: z.string().optional(),
  network: Network.optional(),
  limits: SandboxLimits.optional(),
  env: z.record(z.string(), z.string()).optional(),
  /**
   * Environment variables of the agent by reference: `env:NAME` of the server, or `file:/path`. Read at launch, never
   * stored. `value:…` goes into a private file of the data folder, on PostgreSQL encrypted into the database, and is
   * stored as a reference: `file:…`, or `kept:…`, which no client gives.
   */
  secrets: z
    .record(
      z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/),
      z.string().regex(/^(env:[A-Za-z_][A-Za-z0-9_]*|file:\/.+|value:[\s\S]+|kept:[0-9a-f]{32})$/),
    )
    .optional(),
  metadata: z.record(z.string(), z.unknown()).optional(),
  /** Starts as a copy of another session, with its files and its agent's memory. The other session does not change. */
  fork: z.strictObject({ session: z.string(), checkpoint: z.string().optional() }).optional(),
  /** For sessions without a person to answer: the agent's requests are refused at once, with an event. */
  unattended: z.boolean().optional(),
  /** Live file events and the diff at a turn's end (default: on). */
  watch: z.boolean().optional(),
  /** A checkpoint at the end of every completed turn. */
  autoCheckpoint: z.boolean().optional(),
  /** The name of a separate store for the session's checkpoints. */
  shelf: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/)
    .optional(),
  /** Adds the agent's raw output as `process.output`. */
  echo: z.boolean().optional(),
  /** A failure of the agent or its model ends only the turn; the next message starts the agent again. */
  lasting: z.boolean().optional(),
  turnTimeoutMs: z.int().min(1).optional(),
  /** The maximum silence of a model, outside of tools and requests, before the turn fails. */
  silenceTimeoutMs: z.int().min(1).optional(),
  retries: RetryBudget.optional(),
  budget: Budget.optional(),
  /** Limits of a led agent's model requests in any minute. A request above them waits, or gets 429. */
  perMinute: PerMinute.optional(),
  /** Other names of models, for the provider of a led agent: the agent's name, and the provider's. */
  models: z.record(ModelName, ModelName).optional(),
  /** Models that a led agent's provider is asked for when a model is limited, fails or cannot be reached. */
  fallback: z.array(ModelName).min(1).max(8).optional(),
  /** What a led agent may ask its model for. */
  policy: z
    .strictObject({
      models: z.array(ModelName).min(1).optional(),
      maxOutputTokens: z.int().min(1).optional().describe("a request has to name at most this many"),
    })
    .optional(),
  /** Records the answers of the model, or answers from a recording. */
  cassette: CassetteSpec.optional(),
  ttl: z
    .int()
    .min(1)
    .max(3_153_600_000)
    .optional()
    .describe(
      "in seconds; a session without an event for this long is deleted, unless it runs, is paused, waits for an answer or has a queued input",
    ),
});
export type SessionSpec = z.infer<typeof SessionSpec>;

export const SessionStatus = z.enum(["idle", "starting", "running", "waiting", "retrying", "ended"]);
export type SessionStatus = z.infer<typeof SessionStatus>;

/** The values of a filter. A paused session has a status beside. */
export const StatusFilter = z.enum([...SessionStatus.options, "paused"]);
export type StatusFilter = z.infer<typeof StatusFilter>;

export const PendingAction = z.strictObject({
  kind: ActionKind,
  id: z.string(),
  turnId: z.string(),
  sequence: z.int().describe("of the request"),
  prompt: z.string().describe("the action, the question or the tool's name"),
  options: z.array(z.string()).optional(),
  input: z.unknown().optional(),
});
export type PendingAction = z.infer<typeof PendingAction>;

/** The state of a session: a fold over its log. */
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
  credential: z
    .enum(["outside", "plan_login", "inside"])
    .optional()
    .describe("where the credential of the last agent process is: outside of the sandbox, or in it"),
  eventCount: z.int(),
  oldest: z.int().optional().describe("the oldest event that is left, if older ones were trimmed"),
  createdAt: z.int().describe("milliseconds since 1970"),
  updatedAt: z.int(),
});
export type SessionInfo = z.infer<typeof SessionInfo>;

/** The settings of a session as they are now. Values that may be secret are hidden. */
export const ShownSpec = SessionSpec.extend({
  secrets: z.record(z.string(), z.string()).optional(),
}).describe("the values of env, of secrets, and of an MCP server's env and headers are hidden");
export type ShownSpec = z.infer<typeof ShownSpec>;

/** Narrows a list of sessions. */
export interface SessionFilter {
  readonly status?: readonly StatusFilter[] | undefined;
  readonly agent?: string | undefined;
  /** A part of the id, the title or the directory, in any case. */
  readonly text?: string | undefined;
}

/** Whether agents in a sandbox of this name can do whatever its account can do: `local`, and other machines by SSH. */
export function isOpenSandbox(sandbox: string | undefined): boolean {
  return sandbox === "local" || /^ssh:/i.test(sandbox ?? "");
}
