import { z } from "zod";
import { RunCommand } from "../../contract/index.ts";
import { parseWith, whole } from "../../dialects/universal/index.ts";
import { defineOperations, done, json, type Mount } from "../operation.ts";
import type { Services } from "../services.ts";
import { PortNumber } from "./ports.ts";
import * as responses from "./responses.ts";

export const sandboxOperations = defineOperations({
  pauseSession: {
    method: "POST",
    path: "/v1/sessions/{id}/pause",
    tag: "sandbox",
    summary: "Suspends every process of the session; messages wait (extension)",
    answer: done("Every process is suspended"),
    errors: ["session_not_found", "session_ended", "capability_missing"],
  },
  resumeSession: {
    method: "POST",
    path: "/v1/sessions/{id}/resume",
    tag: "sandbox",
    summary: "Resumes a paused session (extension)",
    answer: done("Every process runs again"),
    errors: ["session_not_found", "capability_missing"],
  },
  runCommand: {
    method: "POST",
    path: "/v1/sessions/{id}/commands",
    tag: "sandbox",
    summary: "Runs a shell command in the sandbox; its output and its end are events (extension)",
    body: { kind: "json", schema: RunCommand },
    answer: json("The started command", responses.StartedCommand),
    errors: ["invalid_request", "session_not_found", "session_ended", "session_busy", "too_large"],
  },
  listShelf: {
    method: "GET",
    path: "/v1/checkpoints",
    tag: "sandbox",
    summary: "The checkpoints of all sessions, or of one checkpoint store, newest first (extension)",
    query: z.object({ shelf: z.string().optional(), limit: whole(1, 500).default(100) }),
    answer: json("The checkpoints", responses.CheckpointList),
    errors: ["invalid_request"],
  },
  getHost: {
    method: "GET",
    path: "/v1/sessions/{id}/hosts/{port}",
    tag: "sandbox",
    summary: "The address of a sandbox's port on the server's host (extension)",
    answer: json("The address", responses.Host),
    errors: ["invalid_request", "session_not_found", "session_ended", "capability_missing"],
  },
  listCheckpoints: {
    method: "GET",
    path: "/v1/sessions/{id}/checkpoints",
    tag: "sandbox",
    summary: "The checkpoints of a session, newest first (extension)",
    query: z.object({ limit: whole(1, 500).default(100) }),
    answer: json("The checkpoints", responses.CheckpointList),
    errors: ["invalid_request", "session_not_found"],
  },
  createCheckpoint: {
    method: "POST",
    path: "/v1/sessions/{id}/checkpoints",
    tag: "sandbox",
    summary: "Creates a checkpoint of an idle session: its files and its agent's memory (extension)",
    body: { kind: "json", schema: responses.CreateCheckpoint },
    answer: json("The checkpoint", responses.Checkpoint),
    errors: ["invalid_request", "session_not_found", "session_busy", "capability_missing", "storage_full"],
  },
  restoreCheckpoint: {
    method: "POST",
    path: "/v1/sessions/{id}/restore",
    tag: "sandbox",
    summary: "Restores an idle session from a checkpoint, of this session or another (extension)",
    body: { kind: "json", schema: responses.RestoreCheckpoint },
    answer: json("The restored checkpoint", responses.Checkpoint),
    errors: [
      "invalid_request",
      "session_not_found",
      "session_ended",
      "session_busy",
      "checkpoint_not_found",
      "capability_missing",
    ],
  },
});

/** A session's sandbox as a whole: its processes, its ports, its checkpoints. */
export function mountSandbox(mount: Mount, { engine }: Services): void {
  mount(sandboxOperations.pauseSession, ({ param }) => engine.pause(param("id")));

  mount(sandboxOperations.resumeSession, ({ param }) => engine.resume(param("id")));

  mount(sandboxOperations.runCommand, async ({ c, body, param }) =>
    c.json(await engine.exec(param("id"), body)),
  );

  mount(sandboxOperations.listShelf, async ({ c, query: { shelf, limit } }) =>
    c.json({ checkpoints: await engine.shelved(shelf, { limit }) }),
  );

  mount(sandboxOperations.getHost, async ({ c, param }) => {
    const url = await engine.host(param("id"), parseWith(PortNumber, param("port"), "path"));
    return c.json({ url: url.href });
  });

  mount(sandboxOperations.listCheckpoints, async ({ c, query: { limit }, param }) =>
    c.json({ checkpoints: await engine.checkpoints(param("id"), { limit }) }),
  );

  mount(sandboxOperations.createCheckpoint, async ({ c, body, param }) =>
    c.json(await engine.checkpoint(param("id"), body)),
  );

  mount(sandboxOperations.restoreCheckpoint, async ({ c, body, param }) =>
    c.json(await engine.restore(param("id"), body.checkpoint)),
  );
}
