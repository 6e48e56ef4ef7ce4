import { z } from "zod";
import { SessionId } from "../../contract/index.ts";
import { Dispatch } from "../../dialects/ndjson/index.ts";
import { flag, whole } from "../../dialects/universal/index.ts";
import { defineOperation, done, events, json } from "../operation.ts";
import { CHAT, CHAT_STREAM, CONVERSATION, RESULTS, STREAM } from "./path.ts";

const idempotency = { "Idempotency-Key": "a resend with the same key and body starts no second turn" };
const refusals = [
  "invalid_request",
  "unsupported_agent",
  "unsupported_sandbox",
  "agent_not_installed",
  "session_ended",
  "idempotency_conflict",
  "too_large",
] as const;

const ChatStreamQuery = z.object({
  conversation: SessionId,
  turn: z.string().min(1),
  cancelOnDisconnect: flag()
    .optional()
    .describe(
      "the reader is the run's own client: where the run was dispatched so, it ends with its last one",
    ),
  ticket: z.string().optional(),
});

const PageQuery = z.object({
  cursor: whole(0).optional().describe("`next` of the page before"),
  limit: whole(1, 1000).default(100),
});

const ResultsQuery = z.object({
  conversation: z.string().optional(),
  turn: z.string().optional(),
});

export const ndjsonOperations = {
  stream: defineOperation({
    id: "ndjsonStream",
    method: "POST",
    path: STREAM,
    tag: "ndjson",
    summary: "Runs one turn and streams it, one JSON object per line",
    headers: idempotency,
    body: { kind: "json", schema: Dispatch },
    answer: { status: 200, description: "log, step, then result or error", mime: "application/x-ndjson" },
    errors: refusals,
  }),
  chat: defineOperation({
    id: "ndjsonChat",
    method: "POST",
    path: CHAT,
    tag: "ndjson",
    summary: "Starts one turn and says where a browser can follow it",
    headers: idempotency,
    body: { kind: "json", schema: Dispatch },
    answer: json("The turn", z.record(z.string(), z.unknown())),
    errors: refusals,
  }),
  chatStream: defineOperation({
    id: "ndjsonChatStream",
    method: "GET",
    path: CHAT_STREAM,
    tag: "ndjson",
    summary: "A turn as server-sent events: step, then result or error, then done",
    query: ChatStreamQuery,
    headers: { "Last-Event-ID": "the id of the last event that was seen" },
    answer: events("The turn; 204 for a reader that has seen all of it"),
    errors: ["invalid_request", "invalid_cursor", "session_not_found", "not_found", "cursor_gone"],
  }),
  results: defineOperation({
    id: "ndjsonResults",
    method: "POST",
    path: RESULTS,
    tag: "ndjson",
    summary: "Takes the assets of a run, once, with the one-time password of its dispatch",
    query: ResultsQuery,
    body: { kind: "bytes", mime: "multipart/form-data" },
    answer: json("What was taken", z.record(z.string(), z.unknown())),
    errors: ["invalid_request", "token_invalid", "precondition_failed", "too_large"],
  }),
  conversation: defineOperation({
    id: "ndjsonConversation",
    method: "GET",
    path: CONVERSATION,
    tag: "ndjson",
    summary: "The messages of a conversation, the oldest first",
    query: PageQuery,
    answer: json("A page of messages", z.record(z.string(), z.unknown())),
    errors: ["invalid_request", "session_not_found"],
  }),
  deleteConversation: defineOperation({
    id: "ndjsonDeleteConversation",
    method: "DELETE",
    path: CONVERSATION,
    tag: "ndjson",
    summary: "Removes a conversation and all that it left",
    answer: done("It is gone"),
    errors: ["session_not_found"],
  }),
  assets: defineOperation({
    id: "ndjsonAssets",
    method: "GET",
    path: `${CONVERSATION}/assets`,
    tag: "ndjson",
    summary: "The assets that the runs of a conversation wrote back, the oldest first",
    query: PageQuery,
    answer: json("A page of assets", z.record(z.string(), z.unknown())),
    errors: ["invalid_request", "session_not_found"],
  }),
  asset: defineOperation({
    id: "ndjsonAsset",
    method: "GET",
    path: `${CONVERSATION}/assets/{asset}`,
    tag: "ndjson",
    summary: "The content of one asset",
    answer: { status: 200, description: "The bytes", mime: "application/octet-stream" },
    errors: ["session_not_found", "file_not_found"],
  }),
} as const;
