export type { AgentConfig, AgentType } from "./agent-config.ts";
export type { AgentResponse, CheckpointInfo, ExecuteOptions, RunOptions } from "./agent-response.ts";
export { type BrowserUseResponse, extractBrowserUseUrls, isBrowserUseTool } from "./browser-use.ts";
export type { SluiceListeners } from "./emitter.ts";
export type { FileContent, FileMap } from "./file-map.ts";
export { readLocalDir, saveLocalDir } from "./local-dir.ts";
export type { OutputResult } from "./output-files.ts";
export type { ResultOf, ResultSchema } from "./result-schema.ts";
export type { SessionStatus } from "./session-status.ts";
export type { McpServerConfig } from "./settings.ts";
export type { EventsOptions, StreamedEvent } from "./event-stream.ts";
export { Sluice } from "./sluice.ts";
export type { S3Config, StorageConfig } from "./storage.ts";
export type {
  AgentMessageChunk,
  AgentRuntimeState,
  AgentThoughtChunk,
  ContentBlock,
  DiffContent,
  ImageContent,
  LifecycleEvent,
  LifecycleReason,
  OutputEvent,
  Plan,
  PlanEntry,
  SandboxLifecycleState,
  SessionUpdate,
  TextContent,
  ToolCall,
  ToolCallContent,
  ToolCallLocation,
  ToolCallStatus,
  ToolCallUpdate,
  ToolKind,
  UserMessageChunk,
} from "../dialects/content/index.ts";
