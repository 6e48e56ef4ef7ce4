/** The package entry: the engine, its logs, the server and the client. */
export { createClient, SluiceClientError } from "./client/index.ts";
export type { ClientOptions, SluiceClient, SubscribeOptions } from "./client/index.ts";
export * from "./contract/index.ts";
export { createApp, listen } from "./http/index.ts";
export { createMemoryLog, createSqliteLog } from "./log/index.ts";
export type { EventLog, SqliteLogOptions, StoredEvent } from "./log/index.ts";
export { createEngine } from "./sessions/index.ts";
export type {
  AcceptedInput,
  AgentInfo,
  Engine,
  EngineOptions,
  EngineStats,
  SessionInput,
} from "./sessions/index.ts";
