/** The package entry `sluice/client`: runs in browsers and in Node, needs nothing but fetch. */
export type { Checkpoint, CheckpointsClient, FileEntry, FsClient } from "./sandbox.ts";
export { type AgentInfo, createClient, type CreatedSession, type SluiceClient } from "./client.ts";
export { type ClientErrorCode, SluiceClientError } from "./errors.ts";
export { SluiceFailure } from "../contract/errors.ts";
export type { MessageStreamOptions, SendOptions, SentMessage } from "./messages.ts";
export type {
  CallOptions,
  ClientOptions,
  EventPage,
  EventPageOptions,
  EventView,
  KeyOptions,
} from "./transport.ts";
export { createResumingFetch, type ResumingFetchOptions } from "./resuming-fetch.ts";
export type { TokensClient } from "./tokens.ts";
export type { SubscribeOptions } from "./subscribe.ts";
export type {
  CreatedToken,
  CreateSession,
  CreateToken,
  EventData,
  EventOf,
  EventType,
  Item,
  PendingAction,
  PermissionReply,
  SendMessage,
  SessionFilter,
  SessionInfo,
  ShownSpec,
  Scope,
  SluiceEvent,
  TokenInfo,
  ToolReply,
  UpdateSession,
  Usage,
} from "../contract/index.ts";
