/**
 * One parsed event of a run: a message, a tool call or a plan of the agent.
 *
 * @example
 * sluice.on("content", (event: OutputEvent) => console.log(event.sessionId, event.update.sessionUpdate));
 */
export interface OutputEvent {
  /** The agent's own id of the conversation, once it is known. */
  sessionId?: string;
  update: SessionUpdate;
}

/**
 * The update itself; `sessionUpdate` is its type.
 *
 * @example
 * const label = (update: SessionUpdate): string => (update.sessionUpdate === "tool_call" ? update.title : "");
 * sluice.on("content", ({ update }) => console.log(label(update)));
 */
export type SessionUpdate =
  | AgentMessageChunk
  | AgentThoughtChunk
  | UserMessageChunk
  | ToolCall
  | ToolCallUpdate
  | Plan;

/**
 * A piece of the agent's answer. The pieces together are the answer.
 *
 * @example
 * const show = ({ content }: AgentMessageChunk): unknown => content.type === "text" && process.stdout.write(content.text);
 * sluice.on("content", ({ update }) => update.sessionUpdate === "agent_message_chunk" && show(update));
 */
export interface AgentMessageChunk {
  sessionUpdate: "agent_message_chunk";
  content: ContentBlock;
}

/**
 * A piece of the agent's reasoning.
 *
 * @example
 * const thought: AgentThoughtChunk = {
 *   sessionUpdate: "agent_thought_chunk",
 *   content: { type: "text", text: "Where is the test?" },
 * };
 */
export interface AgentThoughtChunk {
  sessionUpdate: "agent_thought_chunk";
  content: ContentBlock;
}

/**
 * The user's message, from agents that repeat it (Gemini).
 *
 * @example
 * const echo: UserMessageChunk = { sessionUpdate: "user_message_chunk", content: { type: "text", text: "Hello" } };
 */
export interface UserMessageChunk {
  sessionUpdate: "user_message_chunk";
  content: ContentBlock;
}

/**
 * The start of a tool call.
 *
 * @example
 * const cards = new Map<string, ToolCall>();
 * sluice.on("content", ({ update }) => update.sessionUpdate === "tool_call" && cards.set(update.toolCallId, update));
 */
export interface ToolCall {
  sessionUpdate: "tool_call";
  toolCallId: string;
  title: string;
  kind: ToolKind;
  status: ToolCallStatus;
  rawInput?: unknown;
  content?: ToolCallContent[];
  locations?: ToolCallLocation[];
}

/**
 * The progress or the end of a tool call; its fields replace earlier ones.
 *
 * @example
 * const isOver = ({ status }: ToolCallUpdate): boolean => status === "completed" || status === "failed";
 * sluice.on("content", ({ update }) => update.sessionUpdate === "tool_call_update" && console.log(isOver(update)));
 */
export interface ToolCallUpdate {
  sessionUpdate: "tool_call_update";
  toolCallId: string;
  status?: ToolCallStatus;
  title?: string;
  content?: ToolCallContent[];
  locations?: ToolCallLocation[];
}

/**
 * The agent's list of tasks; each plan replaces the one before.
 *
 * @example
 * const done = ({ entries }: Plan): number => entries.filter(({ status }) => status === "completed").length;
 * sluice.on("content", ({ update }) => update.sessionUpdate === "plan" && console.log(done(update)));
 */
export interface Plan {
  sessionUpdate: "plan";
  entries: PlanEntry[];
}

/**
 * One task of a plan.
 *
 * @example
 * const entry: PlanEntry = { content: "Write the test", status: "in_progress", priority: "high" };
 */
export interface PlanEntry {
  content: string;
  status: "pending" | "in_progress" | "completed";
  priority: "high" | "medium" | "low";
}

/**
 * Text or an image.
 *
 * @example
 * const words = (block: ContentBlock): string => (block.type === "text" ? block.text : `[${block.mimeType}]`);
 */
export type ContentBlock = TextContent | ImageContent;

/**
 * Text.
 *
 * @example
 * const text: TextContent = { type: "text", text: "Hello" };
 */
export interface TextContent {
  type: "text";
  text: string;
}

/**
 * An image, its bytes in base64.
 *
 * @example
 * const image: ImageContent = { type: "image", data: "iVBORw0KGgo=", mimeType: "image/png" };
 */
export interface ImageContent {
  type: "image";
  data: string;
  mimeType: string;
  uri?: string;
}

/**
 * The category of a tool, for icons. Tools of MCP servers are `other`.
 *
 * @example
 * const icons: Partial<Record<ToolKind, string>> = { read: "📖", edit: "✏️", execute: "⌨️" };
 */
export type ToolKind =
  | "read"
  | "edit"
  | "delete"
  | "move"
  | "search"
  | "execute"
  | "think"
  | "fetch"
  | "switch_mode"
  | "other";

/**
 * The progress of a tool call.
 *
 * @example
 * const marks: Record<ToolCallStatus, string> = { pending: "·", in_progress: "…", completed: "✓", failed: "✗" };
 */
export type ToolCallStatus = "pending" | "in_progress" | "completed" | "failed";

/**
 * A file that a tool works on.
 *
 * @example
 * const location: ToolCallLocation = { path: "src/main.ts", line: 12 };
 */
export interface ToolCallLocation {
  path: string;
  line?: number;
}

/**
 * The content of a tool call: text, an image, or the diff of a file.
 *
 * @example
 * const isDiff = (part: ToolCallContent): boolean => part.type === "diff";
 */
export type ToolCallContent = { type: "content"; content: ContentBlock } | DiffContent;

/**
 * A change of a file; `oldText` is null for a new file.
 *
 * @example
 * const diff: DiffContent = { type: "diff", path: "a.txt", oldText: "one\n", newText: "two\n" };
 */
export interface DiffContent {
  type: "diff";
  path: string;
  oldText: string | null;
  newText: string;
}

/**
 * A change of the sandbox, or of the run or command in it.
 *
 * @example
 * sluice.on("lifecycle", (event: LifecycleEvent) => console.log(event.reason, event.sandbox, event.agent));
 */
export interface LifecycleEvent {
  sandboxId: string | null;
  sandbox: SandboxLifecycleState;
  agent: AgentRuntimeState;
  /** ISO 8601. */
  timestamp: string;
  reason: LifecycleReason;
}

/**
 * The state of a sandbox.
 *
 * @example
 * const isThere = (state: SandboxLifecycleState): boolean => state === "ready" || state === "running";
 * isThere(sluice.status().sandbox);
 */
export type SandboxLifecycleState = "booting" | "error" | "ready" | "running" | "paused" | "stopped";

/**
 * The state of the agent, or of the command that runs instead.
 *
 * @example
 * const agent: AgentRuntimeState = sluice.status().agent;
 * if (agent === "running") await sluice.interrupt();
 */
export type AgentRuntimeState = "idle" | "running" | "interrupted" | "error";

/**
 * The reason of a lifecycle event.
 *
 * @example
 * const ends: LifecycleReason[] = ["run_background_complete", "run_background_failed", "run_interrupted"];
 * sluice.on("lifecycle", ({ reason }) => ends.includes(reason) && console.log("over"));
 */
export type LifecycleReason =
  | "sandbox_boot"
  | "sandbox_ready"
  | "sandbox_connected"
  | "sandbox_pause"
  | "sandbox_resume"
  | "sandbox_killed"
  | "sandbox_error"
  | "run_start"
  | "run_complete"
  | "run_interrupted"
  | "run_failed"
  | "run_background_complete"
  | "run_background_failed"
  | "command_start"
  | "command_complete"
  | "command_failed"
  | "command_interrupted"
  | "command_background_complete"
  | "command_background_failed";
