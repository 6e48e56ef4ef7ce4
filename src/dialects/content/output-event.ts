/** The content events of the SDK, shape for shape as its page has them. */

/** One parsed event of a run: what an agent says, does and plans. */
export interface OutputEvent {
  /** The agent's own id of the conversation, once it is known. */
  sessionId?: string;
  update: SessionUpdate;
}

/** What happened; told apart by `sessionUpdate`. */
export type SessionUpdate =
  | AgentMessageChunk
  | AgentThoughtChunk
  | UserMessageChunk
  | ToolCall
  | ToolCallUpdate
  | Plan;

/** A piece of the agent's answer. The pieces together are the answer. */
export interface AgentMessageChunk {
  sessionUpdate: "agent_message_chunk";
  content: ContentBlock;
}

/** A piece of the agent's reasoning. */
export interface AgentThoughtChunk {
  sessionUpdate: "agent_thought_chunk";
  content: ContentBlock;
}

/** What the user said, where the agent repeats it (Gemini). */
export interface UserMessageChunk {
  sessionUpdate: "user_message_chunk";
  content: ContentBlock;
}

/** A tool begins. */
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

/** A tool goes on or is done; what is given here replaces what was known. */
export interface ToolCallUpdate {
  sessionUpdate: "tool_call_update";
  toolCallId: string;
  status?: ToolCallStatus;
  title?: string;
  content?: ToolCallContent[];
  locations?: ToolCallLocation[];
}

/** The agent's list of tasks; each one replaces the list before. */
export interface Plan {
  sessionUpdate: "plan";
  entries: PlanEntry[];
}

/** One task of a plan. */
export interface PlanEntry {
  content: string;
  status: "pending" | "in_progress" | "completed";
  priority: "high" | "medium" | "low";
}

/** Text or an image. */
export type ContentBlock = TextContent | ImageContent;

/** Text. */
export interface TextContent {
  type: "text";
  text: string;
}

/** An image, its bytes in base64. */
export interface ImageContent {
  type: "image";
  data: string;
  mimeType: string;
  uri?: string;
}

/** The category of a tool, for icons. Tools of MCP servers are `other`. */
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

/** How far a tool is. */
export type ToolCallStatus = "pending" | "in_progress" | "completed" | "failed";

/** A file that a tool works on. */
export interface ToolCallLocation {
  path: string;
  line?: number;
}

/** What a tool shows: text, an image, or what it changed in a file. */
export type ToolCallContent = { type: "content"; content: ContentBlock } | DiffContent;

/** A change of a file; `oldText` is null where the file is new. */
export interface DiffContent {
  type: "diff";
  path: string;
  oldText: string | null;
  newText: string;
}
