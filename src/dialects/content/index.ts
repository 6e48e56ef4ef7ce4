export { content, type FrameView } from "./dialect.ts";
export type {
  AgentRuntimeState,
  LifecycleEvent,
  LifecycleReason,
  SandboxLifecycleState,
} from "./lifecycle-event.ts";
export type {
  AgentMessageChunk,
  AgentThoughtChunk,
  ContentBlock,
  DiffContent,
  ImageContent,
  OutputEvent,
  Plan,
  PlanEntry,
  SessionUpdate,
  TextContent,
  ToolCall,
  ToolCallContent,
  ToolCallLocation,
  ToolCallStatus,
  ToolCallUpdate,
  ToolKind,
  UserMessageChunk,
} from "./output-event.ts";
export { projectContent } from "./project.ts";
export { type ContentState, type ContentView, initialContent } from "./state.ts";
export type { Told } from "./told.ts";
