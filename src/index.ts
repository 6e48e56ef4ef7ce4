/** The package entry: the SDK and its parts, that is the engine, its logs, the server and the client. */
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
export * from "./sdk/index.ts";
// Of two of one name, a program means the SDK's.
export type { PlanEntry, SessionStatus } from "./sdk/index.ts";
