import { z } from "zod";
import { SluiceEvent } from "./events.ts";
import { SessionInfo } from "./session.ts";

// Schemas of HTTP requests and responses that no other file of the contract defines.

const next = z.string().optional().describe("the cursor of the next page; absent on the last one");

export const Health = z.strictObject({ status: z.literal("ok"), version: z.string().optional() });

export const NodeInfo = z.strictObject({
  name: z.string(),
  url: z.string().exactOptional().describe("where the other nodes reach it"),
  version: z.string().exactOptional(),
  state: z
    .enum(["live", "starting", "draining", "late"])
    .describe("late: its lease is over, and no other node has noticed so far"),
  self: z.boolean().describe("whether this node has answered"),
  startedAt: z.number().describe("milliseconds since 1970"),
  leaseMs: z.number().exactOptional().describe("how long its lease still lasts"),
  sessions: z.int().describe("its active sessions"),
});

export const NodeList = z.strictObject({ nodes: z.array(NodeInfo) });

export const Agent = z.strictObject({
  id: z.string(),
  title: z.string(),
  installed: z.boolean(),
  version: z.string().optional(),
  hint: z.string().optional().describe("the command that installs the agent, if it is missing"),
  modes: z.array(z.string()).optional().describe("values of agentMode"),
  models: z
    .array(z.string())
    .optional()
    .describe("values of model that are known to work; others are passed on"),
  variants: z.array(z.string()).optional().describe("values of variant: the reasoning effort"),
  capabilities: z
    .record(z.string(), z.boolean())
    .describe("the parts of the event schema that the adapter fills"),
});

export const AgentList = z.strictObject({ agents: z.array(Agent) });

export const CreatedSession = z.strictObject({
  healthy: z.boolean(),
  error: z.unknown().optional(),
  nativeSessionId: z.string().optional(),
});

export const SessionPage = z.strictObject({
  sessions: z.array(SessionInfo),
  next,
});

const previous = z
  .string()
  .optional()
  .describe("`before` of the previous page; only in an answer to a request with `before`");
export const EventPage = z.strictObject({
  events: z.array(SluiceEvent),
  hasMore: z.boolean(),
  next,
  previous,
});

export const FileEntry = z.strictObject({
  path: z.string(),
  name: z.string(),
  entryType: z.enum(["file", "directory", "symlink", "other"]),
  size: z.int(),
  modified: z.number().describe("milliseconds since 1970"),
  version: z
    .string()
    .exactOptional()
    .describe("another text after every change of the file, also one that keeps its size and time"),
});

export const FileWritten = z.strictObject({ path: z.string(), bytesWritten: z.int() });
export const PathDone = z.strictObject({ path: z.string() });
export const MoveFile = z.strictObject({
  from: z.string().min(1),
  to: z.string().min(1),
  overwrite: z.boolean().optional(),
});
export const FileMoved = z.strictObject({ from: z.string(), to: z.string() });
export const BatchWritten = z.strictObject({ paths: z.array(z.string()) });

export const Problem = z.looseObject({
  type: z.string().describe("urn:sluice:error:<code>"),
  title: z.string(),
  status: z.int(),
  detail: z.string().describe("what happened and what to do now"),
  retryable: z.boolean().describe("whether the same request may succeed later"),
  holder: z
    .int()
    .optional()
    .describe("of `session_busy`: the process that runs the session, where another server does"),
});

export const StartedCommand = z.strictObject({
  commandId: z.string(),
  after: z.int().describe("the sequence before its first event"),
});

export const Host = z.strictObject({ url: z.url() });

export const Checkpoint = z.strictObject({
  id: z.string(),
  hash: z.string().describe("equal trees have equal hashes"),
  timestamp: z.iso.datetime({ offset: true }),
  parentId: z.string().optional(),
  comment: z.string().optional(),
  sizeBytes: z.int(),
  agentType: z.string().optional(),
  model: z.string().optional(),
  sessionId: z.string().optional(),
  nativeSessionId: z.string().optional(),
});
export const CheckpointList = z.strictObject({ checkpoints: z.array(Checkpoint), next });
export const CreateCheckpoint = z.strictObject({ comment: z.string().optional() });
export const MoveSession = z.strictObject({
  sandbox: z.string().min(1).max(500).describe("the provider, as in the creation of a session"),
});
export const RestoreCheckpoint = z.strictObject({
  checkpoint: z.string().min(1).describe("its id, or `latest`"),
});
