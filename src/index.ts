/**
 * The package entry: the SDK, the client, the contract and the logs. The engine and the HTTP server are loaded when one
 * of their functions is called. `sluice/http` has the server's functions without the wait.
 */
import type { App, AppOptions, Listening, ListenOptions } from "./http/index.ts";
import type { Engine, EngineOptions } from "./sessions/index.ts";

export { createClient, SluiceClientError } from "./client/index.ts";
export type { ClientOptions, SluiceClient, SubscribeOptions } from "./client/index.ts";
export * from "./contract/index.ts";
export type { App, AppOptions, Listening, ListenOptions } from "./http/index.ts";
export { createMemoryLog, createSqliteLog } from "./log/index.ts";
export type { EventLog, SqliteLogOptions, StoredEvent } from "./log/index.ts";
export { createSandboxDebug } from "./sessions/sandbox-debug.ts";
export type {
  AcceptedInput,
  AgentInfo,
  Engine,
  EngineOptions,
  EngineStats,
  SessionInput,
} from "./sessions/index.ts";
export * from "./sdk/index.ts";
// The contract and the SDK both export these names. This line chooses the SDK's.
export type { PlanEntry, SessionStatus } from "./sdk/index.ts";

/** Opens an engine on a log and a data folder. */
export async function createEngine(options: EngineOptions): Promise<Engine> {
  const sessions = await import("./sessions/index.ts");
  return sessions.createEngine(options);
}

/** The HTTP app of an engine, for `listen()`. */
export async function createApp(options: AppOptions): Promise<App> {
  const http = await import("./http/index.ts");
  return http.createApp(options);
}

/** Serves an app; `app` may be the promise of `createApp()`. */
export async function listen(
  options: Omit<ListenOptions, "app"> & { readonly app: ListenOptions["app"] | Promise<App> },
): Promise<Listening> {
  const http = await import("./http/index.ts");
  return http.listen({ ...options, app: await options.app });
}
