import type { PlanEntry, SpoolLine } from "../../contract/index.ts";
import { isRecord, parseObject } from "../fields.ts";
import type { Decoded } from "../port.ts";
import { readPermission, readPermissionReply, readQuestion, readQuestionReply } from "./asks.ts";
import { readRequest } from "./encode.ts";
import { decodeAcpForm, endRun, isAcpForm, readRunLine } from "./forms.ts";
import { readCompaction, readDelta, readMessage, readPart } from "./messages.ts";
import { adoptSession, markGap, readAnswer, readChild } from "./sessions.ts";
import { type NativeEvent, OpencodeReading, type OpencodeState, type Properties } from "./state.ts";
import { noteFailure, readStatus, readIdle } from "./turns.ts";

/**
 * One line of OpenCode as facts. The gateway passes the server's events and answers on unchanged, so a live `out`
 * line and a recording's `sse` or `http-out` line are told apart by their shape. Never throws.
 */
export function decode(state: OpencodeState, line: SpoolLine): Decoded<OpencodeState> {
  if (isAcpForm(state, line)) return decodeAcpForm(state, line);
  switch (line.dir) {
    case "in":
    case "http-in":
      return { state: readRequest(state, line), facts: [] };
    case "out":
    case "sse":
    case "http-out":
      return read(state, line);
    case "exit":
      return endRun(state, line);
    default:
      return { state, facts: [] };
  }
}

function read(state: OpencodeState, line: SpoolLine): Decoded<OpencodeState> {
  const reading = new OpencodeReading(state);
  const value = parseObject(line);
  const problem = typeof value === "string" ? value : readValue(reading, value);
  if (problem !== undefined) reading.scribe.unparsed(line, problem);
  return reading.decoded();
}

/** Returns the problem of an unknown or malformed value. */
function readValue(reading: OpencodeReading, value: Record<string, unknown>): string | undefined {
  const { type, properties, path, status, sessionID } = value;
  if (typeof type === "string" && isRecord(properties))
    return readEvent(reading, { ...value, type, properties });
  if (typeof path === "string" && typeof status === "number")
    return readAnswer(reading, { ...value, path, status });
  if (typeof type === "string" && typeof sessionID === "string")
    return readRunLine(reading, { ...value, type });
  return `unknown shape: ${Object.keys(value).slice(0, 8).join(", ")}`;
}

/** Reads an event of `GET /event`. Returns the problem of an unknown or malformed one. */
function readEvent(reading: OpencodeReading, event: NativeEvent): string | undefined {
  const { type, properties } = event;
  switch (type) {
    case "message.part.delta":
      return readDelta(reading, properties);
    case "message.part.updated":
      return readPart(reading, properties);
    case "message.updated":
      return readMessage(reading, properties);
    case "session.created":
      readChild(reading, properties);
      return adoptSession(reading, properties["info"]);
    case "session.status":
      return readStatus(reading, event);
    case "session.idle":
      return readIdle(reading, properties["sessionID"]);
    case "session.error":
      return noteFailure(reading, properties);
    case "session.compacted":
      return readCompaction(reading, properties);
    case "permission.asked":
      return readPermission(reading, properties);
    case "permission.replied":
      return readPermissionReply(reading, properties);
    case "question.asked":
      return readQuestion(reading, properties);
    case "question.replied":
    case "question.rejected":
      return readQuestionReply(reading, properties);
    case "todo.updated":
      return readPlan(reading, properties);
    case "server.connected":
      return markGap(reading);
    default:
      return isNews(type) ? undefined : `unknown event ${type}`;
  }
}

/** News of the server, its files and its other clients: no part of a conversation. */
const NEWS =
  /^(server|global|session|message|plugin|catalog|reference|integration|models-dev|installation|file|project|pty|lsp|tui|mcp|command|vcs|workspace|worktree|ide|permission|question)\./;

function isNews(type: string): boolean {
  return NEWS.test(type);
}

function readPlan(reading: OpencodeReading, { sessionID, todos }: Properties): undefined {
  const origin = reading.originOf(sessionID);
  if (!origin || !Array.isArray(todos)) return;
  reading.scribe.plan(todos.filter(isRecord).map(toEntry), origin);
}

function toEntry({ content, status, priority }: Record<string, unknown>): PlanEntry {
  return {
    content: String(content ?? ""),
    status: toStatus(status),
    priority: priority === "high" || priority === "low" ? priority : "medium",
  };
}

function toStatus(status: unknown): PlanEntry["status"] {
  // A cancelled entry is settled, like a completed one.
  if (status === "completed" || status === "cancelled") return "completed";
  return status === "in_progress" ? "in_progress" : "pending";
}
