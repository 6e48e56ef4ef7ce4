import { z } from "zod";
import { whole } from "../dialects/universal/index.ts";
import { RunCommand } from "../contract/index.ts";
import * as answers from "./answers.ts";
import { defineOperation, done, json } from "./operation.ts";

/** The calls on a session's sandbox as a whole: its processes, its ports, its checkpoints. */

export const sandboxOperations = {
  pauseSession: defineOperation({
    id: "pauseSession",
    method: "POST",
    path: "/v1/sessions/{id}/pause",
    tag: "sandbox",
    summary: "Stops every process of the session where it stands; messages wait (extension)",
    answer: done("Nothing of it runs"),
    errors: ["session_not_found", "session_ended", "capability_missing"],
  }),
  resumeSession: defineOperation({
    id: "resumeSession",
    method: "POST",
    path: "/v1/sessions/{id}/resume",
    tag: "sandbox",
    summary: "Lets a paused session go on (extension)",
    answer: done("It goes on"),
    errors: ["session_not_found", "capability_missing"],
  }),
  runCommand: defineOperation({
    id: "runCommand",
    method: "POST",
    path: "/v1/sessions/{id}/commands",
    tag: "sandbox",
    summary: "Runs a shell command in the sandbox; its output and its end are events (extension)",
    body: { kind: "json", schema: RunCommand },
    answer: json("It runs", answers.StartedCommand),
    errors: ["invalid_request", "session_not_found", "session_ended", "session_busy", "too_large"],
  }),
  listShelf: defineOperation({
    id: "listShelf",
    method: "GET",
    path: "/v1/checkpoints",
    tag: "sandbox",
    summary: "The checkpoints of all sessions, or of those on one shelf, newest first (extension)",
    query: z.object({ shelf: z.string().optional(), limit: whole(1, 500).default(100) }),
    answer: json("The checkpoints", answers.CheckpointList),
    errors: ["invalid_request"],
  }),
  getHost: defineOperation({
    id: "getHost",
    method: "GET",
    path: "/v1/sessions/{id}/hosts/{port}",
    tag: "sandbox",
    summary: "Where a port of the sandbox can be reached from the server's own host (extension)",
    answer: json("The address", answers.Host),
    errors: ["invalid_request", "session_not_found", "session_ended", "capability_missing"],
  }),
  listCheckpoints: defineOperation({
    id: "listCheckpoints",
    method: "GET",
    path: "/v1/sessions/{id}/checkpoints",
    tag: "sandbox",
    summary: "The checkpoints of a session, newest first (extension)",
    query: z.object({ limit: whole(1, 500).default(100) }),
    answer: json("The checkpoints", answers.CheckpointList),
    errors: ["invalid_request", "session_not_found"],
  }),
  createCheckpoint: defineOperation({
    id: "createCheckpoint",
    method: "POST",
    path: "/v1/sessions/{id}/checkpoints",
    tag: "sandbox",
    summary: "Keeps the files of an idle session, its agent's memory with them (extension)",
    body: { kind: "json", schema: answers.CreateCheckpoint },
    answer: json("The checkpoint", answers.Checkpoint),
    errors: ["invalid_request", "session_not_found", "session_busy", "capability_missing", "storage_full"],
  }),
  restoreCheckpoint: defineOperation({
    id: "restoreCheckpoint",
    method: "POST",
    path: "/v1/sessions/{id}/restore",
    tag: "sandbox",
    summary:
      "Makes the files of an idle session what a checkpoint kept, of this session or another (extension)",
    body: { kind: "json", schema: answers.RestoreCheckpoint },
    answer: json("The checkpoint that was restored", answers.Checkpoint),
    errors: [
      "invalid_request",
      "session_not_found",
      "session_ended",
      "session_busy",
      "checkpoint_not_found",
      "capability_missing",
    ],
  }),
} as const;
