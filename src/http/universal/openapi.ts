import type { z } from "zod";
import * as contract from "../../contract/index.ts";
import { webhookOperations } from "../webhooks/operations.ts";
import { eventOperations } from "./events.ts";
import { fsOperations } from "./files.ts";
import { checkpointFileOperations } from "./inspection/checkpoint-files.ts";
import { inputOperations } from "./inspection/inputs.ts";
import { outlineOperations } from "./inspection/outline.ts";
import { sessionStreamOperations } from "./inspection/session-stream.ts";
import { actionOperations, messageOperations } from "./messages.ts";
import * as responses from "../../contract/responses.ts";
import { sandboxOperations } from "./sandbox.ts";
import { serverOperations } from "./server.ts";
import { sessionOperations } from "./sessions.ts";
import { tokenOperations } from "./tokens.ts";
import { usageOperations } from "./usage.ts";

/** Every call of the universal dialect, and the server's own, in the order of the document. */
export const operations = {
  ...serverOperations,
  ...sessionOperations,
  ...sessionStreamOperations,
  ...messageOperations,
  ...inputOperations,
  ...eventOperations,
  ...outlineOperations,
  ...actionOperations,
  ...sandboxOperations,
  ...checkpointFileOperations,
  ...fsOperations,
  ...usageOperations,
  ...tokenOperations,
  ...webhookOperations,
} as const;

/** Schemas that have a name in the document. Other schemas refer to them by this name. */
export const universalSchemas: Readonly<Record<string, z.ZodType>> = {
  SluiceEvent: contract.SluiceEvent,
  Item: contract.Item,
  ContentPart: contract.ContentPart,
  Usage: contract.Usage,
  StderrOutput: contract.StderrOutput,
  CreateSession: contract.CreateSession,
  McpServer: contract.McpServer,
  UpdateSession: contract.UpdateSession,
  SessionInfo: contract.SessionInfo,
  ShownSpec: contract.ShownSpec,
  PendingAction: contract.PendingAction,
  SendMessage: contract.SendMessage,
  Attachment: contract.Attachment,
  PermissionReply: contract.PermissionReply,
  QuestionReply: contract.QuestionReply,
  ToolReply: contract.ToolReply,
  Outline: contract.Outline,
  OutlineTurn: contract.OutlineTurn,
  OutlineMark: contract.OutlineMark,
  SessionAt: contract.SessionAt,
  SessionEntry: contract.SessionEntry,
  FramePage: contract.FramePage,
  InputList: contract.InputList,
  WaitingInput: contract.WaitingInput,
  ReplaceInput: contract.ReplaceInput,
  OrderInputs: contract.OrderInputs,
  CheckpointTree: contract.CheckpointTree,
  CheckpointEntry: contract.CheckpointEntry,
  CheckpointChange: contract.CheckpointChange,
  CheckpointChanges: contract.CheckpointChanges,
  CreateToken: contract.CreateToken,
  TokenInfo: contract.TokenInfo,
  CreatedToken: contract.CreatedToken,
  CreateWebhook: contract.CreateWebhook,
  UpdateWebhook: contract.UpdateWebhook,
  WebhookInfo: contract.WebhookInfo,
  CreatedWebhook: contract.CreatedWebhook,
  WebhookDelivery: contract.WebhookDelivery,
  ...(responses as Record<string, z.ZodType>),
};
