/** The package entry `sluice/client`: runs in browsers and in Node, needs nothing but fetch. */
export type { Checkpoint, CheckpointsClient, FileEntry, FsClient } from "./sandbox.ts";
export {
  type AgentInfo,
  createClient,
  type CreatedSession,
  type NodeInfo,
  type SluiceClient,
} from "./client.ts";
export type {
  CheckpointFilesClient,
  ClientFrame,
  FramePageOptions,
  FramesClient,
  InputsClient,
  QueueOptions,
  WatchOptions,
} from "./inspection.ts";
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
export type { WebhooksClient } from "./webhooks.ts";
export type { SubscribeOptions } from "./subscribe.ts";
export type {
  CheckpointChange,
  CheckpointChanges,
  CheckpointEntry,
  CheckpointTree,
  CreatedToken,
  CreatedWebhook,
  CreateSession,
  CreateToken,
  CreateWebhook,
  EventData,
  EventOf,
  EventType,
  FormatName,
  FramePage,
  InputList,
  Item,
  Outline,
  OutlineMark,
  OutlineTurn,
  PendingAction,
  PermissionReply,
  ReplaceInput,
  SendMessage,
  SessionAt,
  SessionEntry,
  SessionFilter,
  SessionFrame,
  SessionInfo,
  ShownSpec,
  Scope,
  SluiceEvent,
  TokenInfo,
  ToolReply,
  UpdateSession,
  UpdateWebhook,
  Usage,
  WaitingInput,
  WebhookDelivery,
  WebhookDialect,
  WebhookInfo,
  WebhookType,
} from "../contract/index.ts";
