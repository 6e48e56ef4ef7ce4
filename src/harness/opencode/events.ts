import type { PlanEntry } from "../../contract/index.ts";
import { isRecord } from "../rpc.ts";
import { readPermission, readPermissionReply, readQuestion, readQuestionReply } from "./asks.ts";
import { readCompaction } from "./compaction.ts";
import { noteFailure, readStatus, sessionIsIdle } from "./ends.ts";
import { readMessage } from "./messages.ts";
import type { Page } from "./page.ts";
import { readDelta, readPart } from "./parts.ts";
import { adoptSession, loseTrack, readChild } from "./sessions.ts";

export interface NativeEvent {
  readonly id?: unknown;
  readonly type: string;
  readonly properties: Properties;
}

export type Properties = Readonly<Record<string, unknown>>;

/** An event of `GET /event`; the answer is why it means nothing to us, if it does not. */
export function readEvent(page: Page, event: NativeEvent): string | undefined {
  const { type, properties } = event;
  switch (type) {
    case "message.part.delta":
      return readDelta(page, properties);
    case "message.part.updated":
      return readPart(page, properties);
    case "message.updated":
      return readMessage(page, properties);
    case "session.created":
      readChild(page, properties);
      return adoptSession(page, properties["info"]);
    case "session.status":
      return readStatus(page, event);
    case "session.idle":
      return sessionIsIdle(page, properties["sessionID"]);
    case "session.error":
      return noteFailure(page, properties);
    case "session.compacted":
      return readCompaction(page, properties);
    case "permission.asked":
      return readPermission(page, properties);
    case "permission.replied":
      return readPermissionReply(page, properties);
    case "question.asked":
      return readQuestion(page, properties);
    case "question.replied":
    case "question.rejected":
      return readQuestionReply(page, properties);
    case "todo.updated":
      return readPlan(page, properties);
    case "server.connected":
      return loseTrack(page);
    default:
      return isNews(type) ? undefined : `unknown event ${type}`;
  }
}

/** What the server tells of itself, its files and its other clients: no part of a conversation. */
const NEWS =
  /^(server|global|session|message|plugin|catalog|reference|integration|models-dev|installation|file|project|pty|lsp|tui|mcp|command|vcs|workspace|worktree|ide|permission|question)\./;

function isNews(type: string): boolean {
  return NEWS.test(type);
}

function readPlan(page: Page, { sessionID, todos }: Properties): undefined {
  const place = page.placeOf(sessionID);
  if (!place || !Array.isArray(todos)) return;
  page.scribe.plan(todos.filter(isRecord).map(toEntry), place);
}

function toEntry({ content, status, priority }: Record<string, unknown>): PlanEntry {
  return {
    content: String(content ?? ""),
    // What was given up is as settled as what was done.
    status:
      status === "completed" || status === "cancelled"
        ? "completed"
        : status === "in_progress"
          ? status
          : "pending",
    priority: priority === "high" || priority === "low" ? priority : "medium",
  };
}
