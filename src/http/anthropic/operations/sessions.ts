import { z } from "zod";
import { deletedOf, listOf } from "../../../dialects/anthropic/answers/agents.ts";
import { SentEvent, SessionEvent, StreamEvent } from "../../../dialects/anthropic/answers/events.ts";
import {
  Session,
  SessionList,
  SessionResource,
  Thread,
} from "../../../dialects/anthropic/answers/sessions.ts";
import { SendEvents } from "../../../dialects/anthropic/parse.ts";
import {
  CreateSession,
  FileResourceParams,
  STATUSES,
  UpdateSession,
} from "../../../dialects/anthropic/resources/session.ts";
import { DELTA_TYPES, EVENT_TYPES } from "../../../dialects/anthropic/state.ts";
import { defineOperations, events, json } from "../../operation.ts";
import { BETA, PREFIX } from "../dialect.ts";
import * as params from "../query.ts";
import { byManagedPath } from "../../nodes/owner-rules.ts";

const SESSIONS = `${PREFIX}/sessions`;
const SESSION = `${SESSIONS}/{id}`;
const shared = { tag: "anthropic: sessions", requiredHeaders: BETA } as const;

const ListSessions = z.object({
  agent_id: params.text,
  agent_version: params.text,
  deployment_id: params.text,
  memory_store_id: params.text,
  statuses: params.listOf(z.enum(STATUSES)),
  include_archived: params.flag,
  order: params.order,
  limit: params.limitOf(20),
  page: params.page,
  ...params.createdAt,
});

export const sessionOperations = defineOperations({
  anthropicCreateSession: {
    ...shared,
    method: "POST",
    path: SESSIONS,
    scope: "control",
    summary: "Creates a session of an agent in an environment",
    body: { kind: "json", schema: CreateSession },
    answer: json("The session", Session),
    errors: ["not_found", "unsupported_agent", "unsupported_sandbox", "agent_not_installed", "too_large"],
  },
  anthropicListSessions: {
    ...shared,
    method: "GET",
    path: SESSIONS,
    scope: "read",
    summary: "The sessions, newest first",
    query: ListSessions,
    answer: json("A page of sessions", SessionList),
    errors: ["invalid_cursor"],
  },
  anthropicGetSession: {
    ...shared,
    method: "GET",
    path: SESSION,
    scope: "read",
    summary: "A session, of any dialect",
    answer: json("The session", Session),
    errors: ["session_not_found"],
  },
  anthropicUpdateSession: {
    ...shared,
    method: "POST",
    path: SESSION,
    scope: "control",
    owner: byManagedPath,
    summary: "Changes a session; its agent's tools only while it does not run",
    body: { kind: "json", schema: UpdateSession, optional: true },
    answer: json("The changed session", Session),
    errors: ["session_not_found", "not_found", "too_large"],
  },
  anthropicArchiveSession: {
    ...shared,
    method: "POST",
    path: `${SESSION}/archive`,
    scope: "control",
    owner: byManagedPath,
    summary: "Archives a session that does not run",
    answer: json("The archived session", Session),
    errors: ["session_not_found"],
  },
  anthropicDeleteSession: {
    ...shared,
    method: "DELETE",
    path: SESSION,
    scope: "control",
    owner: byManagedPath,
    summary: "Removes a session that does not run, with its log and its sandbox",
    answer: json("The removed session", deletedOf("session_deleted")),
    errors: ["session_not_found"],
  },
});

const StreamQuery = z.object({ event_deltas: params.listOf(z.enum(DELTA_TYPES)) });
export type StreamQuery = z.infer<typeof StreamQuery>;
const LAST_EVENT_ID = { "Last-Event-ID": "the id of the last event that was seen" };

export const eventOperations = defineOperations({
  anthropicSendEvents: {
    ...shared,
    method: "POST",
    path: `${SESSION}/events`,
    // Messages and interrupts demand more than the scope of the route.
    scope: "answer",
    owner: byManagedPath,
    summary: "Sends events: answers with the scope answer, messages and interrupts with the scope control",
    body: { kind: "json", schema: SendEvents },
    answer: json("The events as they are kept", z.object({ data: z.array(SentEvent) })),
    errors: ["session_not_found", "session_ended", "already_resolved", "too_large"],
  },
  anthropicListEvents: {
    ...shared,
    method: "GET",
    path: `${SESSION}/events`,
    scope: "read",
    summary: "The events of a session so far",
    query: z.object({
      types: params.listOf(z.enum(EVENT_TYPES, { error: "there is no such event type" })),
      order: params.order,
      limit: params.limitOf(1000),
      page: params.page,
      ...params.createdAt,
    }),
    answer: json("A page of events", listOf(SessionEvent)),
    errors: ["session_not_found", "invalid_cursor", "cursor_gone"],
  },
  anthropicStreamEvents: {
    ...shared,
    method: "GET",
    path: `${SESSION}/events/stream`,
    scope: "read",
    summary: "New events of a session, live, until it ends",
    query: StreamQuery,
    headers: LAST_EVENT_ID,
    answer: events("event: the type, id: the event's id, data: the event", undefined, StreamEvent),
    errors: ["session_not_found", "invalid_cursor", "cursor_gone"],
  },
});

const THREAD = `${SESSION}/threads/{thread}`;

export const threadOperations = defineOperations({
  anthropicListThreads: {
    ...shared,
    method: "GET",
    path: `${SESSION}/threads`,
    scope: "read",
    summary: "The one thread of a session",
    query: z.object({ statuses: params.listOf(z.enum(STATUSES)), ...params.ListQuery.shape }),
    answer: json("A page of threads", listOf(Thread)),
    errors: ["session_not_found"],
  },
  anthropicGetThread: {
    ...shared,
    method: "GET",
    path: THREAD,
    scope: "read",
    summary: "A thread",
    answer: json("The thread", Thread),
    errors: ["session_not_found", "not_found"],
  },
  anthropicArchiveThread: {
    ...shared,
    method: "POST",
    path: `${THREAD}/archive`,
    scope: "control",
    owner: byManagedPath,
    summary: "Refused: the thread of a session is archived with it",
    answer: json("The archived thread", Thread),
    errors: ["session_not_found", "not_found"],
  },
  anthropicListThreadEvents: {
    ...shared,
    method: "GET",
    path: `${THREAD}/events`,
    scope: "read",
    summary: "The events of a thread so far",
    query: z.object({ limit: params.limitOf(1000), page: params.page }),
    answer: json("A page of events", listOf(SessionEvent)),
    errors: ["session_not_found", "not_found", "invalid_cursor", "cursor_gone"],
  },
  anthropicStreamThreadEvents: {
    ...shared,
    method: "GET",
    path: `${THREAD}/stream`,
    scope: "read",
    summary: "New events of a thread, live, until its session ends",
    query: StreamQuery,
    headers: LAST_EVENT_ID,
    answer: events("event: the type, id: the event's id, data: the event", undefined, StreamEvent),
    errors: ["session_not_found", "not_found", "invalid_cursor", "cursor_gone"],
  },
});

const RESOURCES = `${SESSION}/resources`;

export const resourceOperations = defineOperations({
  anthropicAddResource: {
    ...shared,
    method: "POST",
    path: RESOURCES,
    scope: "control",
    owner: byManagedPath,
    summary: "Adds a file to a session",
    body: { kind: "json", schema: FileResourceParams },
    answer: json("The resource", SessionResource),
    errors: ["session_not_found", "not_found", "file_not_found", "too_large"],
  },
  anthropicListResources: {
    ...shared,
    method: "GET",
    path: RESOURCES,
    scope: "read",
    summary: "The files and repositories of a session, oldest first",
    query: params.ListQuery,
    answer: json("A page of resources", listOf(SessionResource)),
    errors: ["session_not_found", "invalid_cursor"],
  },
  anthropicGetResource: {
    ...shared,
    method: "GET",
    path: `${RESOURCES}/{resource}`,
    scope: "read",
    summary: "A file or repository of a session",
    answer: json("The resource", SessionResource),
    errors: ["session_not_found", "not_found"],
  },
  anthropicUpdateResource: {
    ...shared,
    method: "POST",
    path: `${RESOURCES}/{resource}`,
    scope: "control",
    owner: byManagedPath,
    summary: "Replaces the token of a repository",
    body: { kind: "json", schema: z.object({ authorization_token: z.string().min(1) }) },
    answer: json("The resource", SessionResource),
    errors: ["session_not_found", "not_found", "too_large"],
  },
  anthropicDeleteResource: {
    ...shared,
    method: "DELETE",
    path: `${RESOURCES}/{resource}`,
    scope: "control",
    owner: byManagedPath,
    summary: "Removes a file or repository from a session",
    answer: json("The removed resource", deletedOf("session_resource_deleted")),
    errors: ["session_not_found", "not_found"],
  },
});
