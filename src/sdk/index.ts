export type { AgentConfig, AgentType, McpServerConfig } from "./settings.ts";
export type {
  AgentResponse,
  CheckpointInfo,
  ExecuteOptions,
  RunOptions,
  SessionStatus,
} from "./agent-response.ts";
export { type BrowserUseResponse, extractBrowserUseUrls, isBrowserUseTool } from "./browser-use.ts";
export type { SluiceListeners } from "./builder.ts";
export type { FileContent, FileMap } from "./files/workspace.ts";
export { readLocalDir, saveLocalDir } from "./files/local-folder.ts";
export type { OutputResult, ResultOf, ResultSchema } from "./files/output.ts";
export type { EventsOptions, StreamedEvent } from "./events.ts";
export { Sluice } from "./sluice.ts";
export type { S3Config, StorageConfig } from "./storage.ts";
export type * from "../dialects/sdk/events.ts";
