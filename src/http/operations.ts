import { z } from "zod";
import {
  CreateSession,
  PermissionReply,
  QuestionReply,
  SendMessage,
  SessionInfo,
  ToolReply,
} from "../contract/index.ts";
import { flag, PageQuery, StreamQuery, ViewQuery, whole } from "../dialects/universal/index.ts";
import * as answers from "./answers.ts";
import { fsOperations } from "./fs-operations.ts";
import { defineOperation, done, events, json } from "./operation.ts";
import { sandboxOperations } from "./sandbox-operations.ts";

/** Every call of the universal dialect, and the server's own. */

const SessionQuery = z.object({
  cursor: z.string().optional().describe("`next` of the page before"),
  limit: whole(1, 1000).default(100),
});

const turnId = { "sluice-turn-id": "the turn that this became, or is part of" };
const commandId = { "sluice-command-id": "the command that was ended" };
const idempotency = { "Idempotency-Key": "a resend with the same key and content is a no-op" };

export const operations = {
  health: defineOperation({
    id: "health",
    method: "GET",
    path: "/v1/health",
    tag: "server",
    summary: "Whether the server is up",
    answer: json("It is", answers.Health),
    open: true,
  }),
  healthz: defineOperation({
    id: "healthz",
    method: "GET",
    path: "/healthz",
    tag: "server",
    summary: "The same, for probes",
    answer: json("It is", answers.Health),
    open: true,
  }),
  metrics: defineOperation({
    id: "metrics",
    method: "GET",
    path: "/metrics",
    tag: "server",
    summary: "Counters and gauges for Prometheus",
    answer: { status: 200, description: "The metrics", mime: "text/plain" },
  }),
  openapi: defineOperation({
    id: "openapi",
    method: "GET",
    path: "/openapi.json",
    tag: "server",
    summary: "This document",
    answer: json("The document", z.record(z.string(), z.unknown())),
  }),
  home: defineOperation({
    id: "home",
    method: "GET",
    path: "/",
    tag: "server",
    summary: "A page that says what this is",
    answer: { status: 200, description: "The page", mime: "text/html" },
    open: true,
  }),

  listAgents: defineOperation({
    id: "listAgents",
    method: "GET",
    path: "/v1/agents",
    tag: "agents",
    summary: "The agents that can be run, and what each can do",
    answer: json("The agents", answers.AgentList),
  }),

  listSessions: defineOperation({
    id: "listSessions",
    method: "GET",
    path: "/v1/sessions",
    tag: "sessions",
    summary: "The sessions, newest first",
    query: SessionQuery,
    answer: json("A page of sessions", answers.SessionPage),
    errors: ["invalid_request", "invalid_cursor"],
  }),
  createSession: defineOperation({
    id: "createSession",
    method: "POST",
    path: "/v1/sessions/{id}",
    tag: "sessions",
    summary: "Makes a session under an id of the client's choice",
    body: { kind: "json", schema: CreateSession },
    answer: json("It exists", answers.CreatedSession),
    errors: [
      "invalid_request",
      "unsupported_agent",
      "mode_not_supported",
      "agent_not_installed",
      "session_already_exists",
    ],
  }),
  getSession: defineOperation({
    id: "getSession",
    method: "GET",
    path: "/v1/sessions/{id}",
    tag: "sessions",
    summary: "What a session is and what it does now",
    answer: json("The session", SessionInfo),
    errors: ["session_not_found"],
  }),
  deleteSession: defineOperation({
    id: "deleteSession",
    method: "DELETE",
    path: "/v1/sessions/{id}",
    tag: "sessions",
    summary: "Ends a session and removes all of it",
    answer: done("It is gone"),
    errors: ["session_not_found"],
  }),
  interruptSession: defineOperation({
    id: "interruptSession",
    method: "POST",
    path: "/v1/sessions/{id}/interrupt",
    tag: "sessions",
    summary: "Ends the running turn, or the command where no turn runs; the session lives on",
    answer: done("It has ended; neither header where nothing ran", { ...turnId, ...commandId }),
    errors: ["session_not_found"],
  }),
  terminateSession: defineOperation({
    id: "terminateSession",
    method: "POST",
    path: "/v1/sessions/{id}/terminate",
    tag: "sessions",
    summary: "Ends the session and its whole process tree",
    query: z.object({ destroy: flag().optional().describe("removes the sandbox and its files too") }),
    answer: done("Every process is dead"),
    errors: ["session_not_found"],
  }),

  sendMessage: defineOperation({
    id: "sendMessage",
    method: "POST",
    path: "/v1/sessions/{id}/messages",
    tag: "messages",
    summary: "Sends a message; it waits in order while a turn runs",
    headers: idempotency,
    body: { kind: "json", schema: SendMessage },
    answer: done("Durably accepted", turnId),
    errors: ["invalid_request", "session_not_found", "session_ended", "idempotency_conflict", "too_large"],
  }),
  streamMessage: defineOperation({
    id: "streamMessage",
    method: "POST",
    path: "/v1/sessions/{id}/messages/stream",
    tag: "messages",
    summary: "Sends a message and streams the events of its turn",
    query: ViewQuery,
    headers: idempotency,
    body: { kind: "json", schema: SendMessage },
    answer: events("The events of that one turn, to its end", turnId),
    errors: ["invalid_request", "session_not_found", "session_ended", "idempotency_conflict", "too_large"],
  }),

  listEvents: defineOperation({
    id: "listEvents",
    method: "GET",
    path: "/v1/sessions/{id}/events",
    tag: "events",
    summary: "A page of a session's events",
    query: PageQuery,
    answer: json("The page", answers.EventPage),
    errors: ["invalid_request", "invalid_cursor", "session_not_found", "cursor_gone"],
  }),
  streamEvents: defineOperation({
    id: "streamEvents",
    method: "GET",
    path: "/v1/sessions/{id}/events/sse",
    tag: "events",
    summary: "A session's events from a cursor on, then live, until the session ends",
    query: StreamQuery,
    headers: { "Last-Event-ID": "the id of the last event that was seen; wins over offset and after" },
    answer: events("id: the sequence, data: the event; a comment every 15 s"),
    errors: ["invalid_request", "invalid_cursor", "session_not_found", "cursor_gone"],
  }),

  replyPermission: defineOperation({
    id: "replyPermission",
    method: "POST",
    path: "/v1/sessions/{id}/permissions/{pid}/reply",
    tag: "answers",
    summary: "Grants or denies what the agent asked for",
    body: { kind: "json", schema: PermissionReply },
    answer: done("Answered"),
    errors: ["invalid_request", "session_not_found", "action_not_found", "already_resolved"],
  }),
  replyQuestion: defineOperation({
    id: "replyQuestion",
    method: "POST",
    path: "/v1/sessions/{id}/questions/{qid}/reply",
    tag: "answers",
    summary: "Answers a question of the agent",
    body: { kind: "json", schema: QuestionReply },
    answer: done("Answered"),
    errors: ["invalid_request", "session_not_found", "action_not_found", "already_resolved"],
  }),
  rejectQuestion: defineOperation({
    id: "rejectQuestion",
    method: "POST",
    path: "/v1/sessions/{id}/questions/{qid}/reject",
    tag: "answers",
    summary: "Refuses to answer a question of the agent",
    answer: done("Rejected"),
    errors: ["session_not_found", "action_not_found", "already_resolved"],
  }),
  replyTool: defineOperation({
    id: "replyTool",
    method: "POST",
    path: "/v1/sessions/{id}/tools/{rid}/reply",
    tag: "answers",
    summary: "Gives the result of a tool that the application ran (extension)",
    body: { kind: "json", schema: ToolReply },
    answer: done("Answered"),
    errors: ["invalid_request", "session_not_found", "action_not_found", "already_resolved", "too_large"],
  }),

  ...sandboxOperations,
  ...fsOperations,
} as const;
