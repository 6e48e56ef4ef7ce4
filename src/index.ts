/** The package entry: the SDK, and what it is made of: the engine, its logs, the server and the client. */
export { createClient, SluiceClientError } from "./client/index.ts";
export type { ClientOptions, SluiceClient, SubscribeOptions } from "./client/index.ts";
export * from "./contract/index.ts";
export { createApp, listen } from "./http/index.ts";
export { createMemoryLog, createSqliteLog } from "./log/index.ts";
export type { EventLog, SqliteLogOptions, StoredEvent } from "./log/index.ts";
export { createEngine, createSandboxDebug } from "./sessions/index.ts";
export type {
  AcceptedInput,
  AgentInfo,
  Engine,
  EngineOptions,
  EngineStats,
  SessionInput,
} from "./sessions/index.ts";
export { extractBrowserUseUrls, isBrowserUseTool, readLocalDir, saveLocalDir, Sluice } from "./sdk/index.ts";
export type {
  AgentConfig,
  AgentMessageChunk,
  AgentResponse,
  AgentRuntimeState,
  AgentThoughtChunk,
  AgentType,
  BrowserUseResponse,
  CheckpointInfo,
  ContentBlock,
  DiffContent,
  EventsOptions,
  ExecuteOptions,
  FileContent,
  FileMap,
  ImageContent,
  LifecycleEvent,
  LifecycleReason,
  McpServerConfig,
  OutputEvent,
  OutputResult,
  Plan,
  PlanEntry,
  ResultOf,
  ResultSchema,
  RunOptions,
  S3Config,
  SandboxLifecycleState,
  SessionStatus,
  SessionUpdate,
  SluiceListeners,
  StorageConfig,
  StreamedEvent,
  TextContent,
  ToolCall,
  ToolCallContent,
  ToolCallLocation,
  ToolCallStatus,
  ToolCallUpdate,
  ToolKind,
  UserMessageChunk,
} from "./sdk/index.ts";
