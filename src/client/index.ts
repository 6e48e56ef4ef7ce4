/** The package entry `sluice/client`: runs in browsers and in Node, needs nothing but fetch. */
export type { Checkpoint, CheckpointsClient } from "./checkpoints.ts";
export { type AgentInfo, type CreatedSession, createClient, type SluiceClient } from "./client.ts";
export { type ClientErrorCode, SluiceClientError } from "./errors.ts";
export type { FileEntry, FsClient } from "./fs.ts";
export type { MessageStreamOptions, SendOptions, SentMessage } from "./messages.ts";
export type { EventPage, EventPageOptions, EventView } from "./paths.ts";
export { createResumingFetch, type ResumingFetchOptions } from "./resuming-fetch.ts";
export type { SubscribeOptions } from "./subscribe.ts";
export type { CallOptions, ClientOptions } from "./transport.ts";
export type {
  CreateSession,
  EventData,
  EventOf,
  EventType,
  Item,
  PendingAction,
  PermissionReply,
  SendMessage,
  SessionInfo,
  SluiceEvent,
  ToolReply,
  Usage,
} from "../contract/index.ts";
