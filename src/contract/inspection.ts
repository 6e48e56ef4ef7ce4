import { z } from "zod";
import { ActionKind, PlanEntry, StopReason, TurnOptions, Usage } from "./event-fields.ts";
import { ContentPart } from "./items.ts";
import { SessionInfo } from "./session.ts";
import { SendMessage } from "./commands.ts";

const Count = z.int().nonnegative();
const next = z.string().optional().describe("the cursor of the next page; absent on the last one");

/** A point of a session's log that a person may look for. */
export const OutlineMark = z.strictObject({
  sequence: z.int().positive(),
  kind: z.enum(["ask", "error", "checkpoint", "restore", "compaction", "interrupt"]),
  id: z.string().optional().describe("of the request or the checkpoint"),
  asks: ActionKind.optional().describe("the kind of an `ask`"),
});
export type OutlineMark = z.infer<typeof OutlineMark>;

export const OutlineTurn = z.strictObject({
  number: z.int().positive().describe("from 1; of a trimmed log, from the oldest turn that is known"),
  turnId: z.string(),
  first: z.int().positive().describe("the sequence of its `turn.started`"),
  last: z
    .int()
    .positive()
    .describe("the sequence of its `turn.ended`; of a running turn, the head of the log"),
  status: z.enum(["running", "waiting", "retrying", "completed", "failed", "interrupted"]),
  stopReason: StopReason.optional().describe("of an ended turn"),
  startedAt: z.int().describe("milliseconds since 1970"),
  endedAt: z.int().optional().describe("of an ended turn"),
  prompt: z.string().describe("the first 200 characters of its first message; may be empty"),
  usage: Usage.describe("`cost_usd` only where the agent or its model reports a price"),
  items: Count.describe("items of all kinds, those of sub-agents too"),
  calls: Count.describe("tool calls"),
  errors: Count.describe("`error` events, failed calls and retries"),
  asks: Count.describe("requests of permissions, questions and tools"),
  marks: z
    .array(OutlineMark)
    .describe("in order, with those between the previous turn and this one; at most 100"),
  moreMarks: z.int().positive().optional().describe("the count of marks that were left out"),
});
export type OutlineTurn = z.infer<typeof OutlineTurn>;

/** A session's turns, newest page first, each page in order. */
export const Outline = z.strictObject({
  turns: z.array(OutlineTurn).describe("in order; the page without `cursor` has the newest turns"),
  marks: z.array(OutlineMark).describe("marks after the last turn; only on the page without `cursor`"),
  head: z.int().nonnegative().describe("the sequence up to which the outline holds"),
  next,
});
export type Outline = z.infer<typeof Outline>;

/** An input that waits for its turn. */
export const WaitingInput = z.strictObject({
  inputId: z.string(),
  turnId: z.string(),
  position: z.int().nonnegative().describe("0 is the next"),
  message: z.string().describe("the text of the content"),
  content: z.array(ContentPart),
  options: TurnOptions.optional(),
});
export type WaitingInput = z.infer<typeof WaitingInput>;

/** The queue of a session. `revision` is the `ETag`, for `If-Match`. */
export const InputList = z.strictObject({
  inputs: z.array(WaitingInput),
  revision: z
    .string()
    .describe("another text after every change of the queue; send it as `If-Match` with a change"),
});
export type InputList = z.infer<typeof InputList>;

/** The new content of an input that waits. The options of its turn stay, unless given. */
export const ReplaceInput = SendMessage.pick({ message: true, attachments: true, options: true });
export type ReplaceInput = z.infer<typeof ReplaceInput>;

export const OrderInputs = z.strictObject({
  order: z.array(z.string()).max(10_000).describe("the ids of all waiting inputs, each once, the next first"),
});
export type OrderInputs = z.infer<typeof OrderInputs>;

/** A session as it was after the event `at`: the fold of the events up to it. */
export const SessionAt = z.strictObject({
  ...SessionInfo.shape,
  at: z.int().nonnegative(),
  plan: z.array(PlanEntry),
  inputs: z.array(WaitingInput),
  turns: Count.describe("turns that have started"),
  checkpoint: z.string().nullable().describe("the last checkpoint that was created or restored"),
});
export type SessionAt = z.infer<typeof SessionAt>;

/** A session in the live list. */
export const SessionEntry = z.strictObject({
  ...SessionInfo.shape,
  turns: Count.optional().describe("turns that have started; absent where an older version began the log"),
  words: z.string().describe("the first 200 characters of the newest message of the agent; may be empty"),
});
export type SessionEntry = z.infer<typeof SessionEntry>;

/** The frames of `GET /v1/sessions/sse`, by the name of the SSE event. Every connection begins with the whole list. */
export const SESSION_FRAMES = {
  session: SessionEntry.describe("a session is in the list, in this state"),
  removed: z
    .strictObject({ sessionId: z.string(), reason: z.enum(["deleted", "filtered"]) })
    .describe("a session left the list: it was deleted, or no longer fits the filters"),
  ready: z
    .strictObject({ count: Count })
    .describe("the list is complete; sessions that this connection has not named are not in it"),
} as const;
export type SessionFrame = {
  [Kind in keyof typeof SESSION_FRAMES]: { type: Kind; data: z.infer<(typeof SESSION_FRAMES)[Kind]> };
}[keyof typeof SESSION_FRAMES];

/** The formats of `as=`: the frames of each dialect. */
export const FORMAT_NAMES = ["universal", "anthropic", "ag-ui", "ndjson", "content", "lifecycle"] as const;
export const FormatName = z.enum(FORMAT_NAMES);
export type FormatName = z.infer<typeof FormatName>;

/** A page of `events?as=`. */
export const FramePage = z.strictObject({
  events: z
    .array(
      z.strictObject({
        sequence: z.int().positive(),
        frames: z
          .array(z.unknown())
          .describe("the JSON of each frame, byte for byte as its dialect sends it"),
      }),
    )
    .describe("the events that have a frame; `limit` counts all events of the log"),
  hasMore: z.boolean(),
  next,
  previous: z
    .string()
    .optional()
    .describe("`before` of the previous page; only in an answer to a request with `before`"),
});
export type FramePage = z.infer<typeof FramePage>;

/** A file, folder or link of a checkpoint. */
export const CheckpointEntry = z.strictObject({
  path: z.string().describe("absolute in the sandbox"),
  name: z.string(),
  entryType: z.enum(["file", "directory", "symlink", "unread"]),
  size: z.int().nonnegative(),
  modified: z.number().optional().describe("of a file: milliseconds since 1970"),
  mode: z.int().optional(),
  target: z.string().optional().describe("of a symlink; it is never followed"),
  sha256: z.string().optional().describe("of a file"),
});
export type CheckpointEntry = z.infer<typeof CheckpointEntry>;

export const CheckpointTree = z.strictObject({
  path: z.string(),
  entries: z.array(CheckpointEntry).describe("in the order of their paths"),
  next,
});
export type CheckpointTree = z.infer<typeof CheckpointTree>;

/** One entry that differs between two checkpoints. */
export const CheckpointChange = z.strictObject({
  path: z.string(),
  change: z.enum(["added", "removed", "changed"]),
  before: CheckpointEntry.optional(),
  after: CheckpointEntry.optional(),
});
export type CheckpointChange = z.infer<typeof CheckpointChange>;

export const CheckpointChanges = z.strictObject({ changes: z.array(CheckpointChange), next });
export type CheckpointChanges = z.infer<typeof CheckpointChanges>;

/** How usage is added up. `turn` and `request` need a session. */
export const UsageBy = z.enum(["session", "turn", "request", "model", "day", "workspace"]);
export type UsageBy = z.infer<typeof UsageBy>;

const Tokens = {
  requests: Count,
  input_tokens: Count.describe("without those of the cache, if the agent or the gateway tells them apart"),
  output_tokens: Count,
  cache_read_tokens: Count,
  cache_write_tokens: Count,
  reasoning_tokens: Count,
  cost_usd: z
    .union([z.number().nonnegative(), z.enum(["unknown", "plan"])])
    .describe("`unknown` if no request has a known price; `plan` if a plan pays for all of them"),
  unknown_requests: Count.describe("requests without a known price, which the cost leaves out"),
  plan_requests: Count.describe("requests that a plan pays, which the cost leaves out"),
};

/** The usage of models, added up. Each request is in one row, and once in the total. */
export const UsageReport = z.strictObject({
  by: UsageBy,
  rows: z.array(
    z.strictObject({
      session: z.string().optional(),
      turn: z.string().optional(),
      request: z.string().optional(),
      model: z.string().optional().describe("absent if the agent reported none"),
      provider: z.string().optional(),
      day: z.string().optional().describe("in UTC"),
      workspace: z.string().optional().describe("absent for the operator's own sessions"),
      ...Tokens,
    }),
  ),
  total: z.strictObject(Tokens),
});
export type UsageReport = z.infer<typeof UsageReport>;
