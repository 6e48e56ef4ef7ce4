import { z } from "zod";
import { RunCommand, SessionInfo } from "../../contract/index.ts";
import { parseWith, whole } from "../../dialects/universal/index.ts";
import type { CheckpointPage } from "../../sessions/port.ts";
import { defineOperations, done, IDEMPOTENCY, idempotencyKeyOf, json, type Mount } from "../operation.ts";
import { PortNumber } from "./ports.ts";
import * as responses from "../../contract/responses.ts";
import { byPath } from "../nodes/owner-rules.ts";

const page = {
  cursor: z
    .string()
    .regex(/^ckpt_\w{1,64}$/, "expected the `next` of a page")
    .optional()
    .describe("`next` of the previous page"),
  limit: whole(1, 500).default(100),
};

export const sandboxOperations = defineOperations({
  pauseSession: {
    method: "POST",
    path: "/v1/sessions/{id}/pause",
    scope: "control",
    owner: byPath,
    tag: "sandbox",
    summary: "Suspends every process of the session; messages wait (extension)",
    answer: done("Every process is suspended"),
    errors: ["session_not_found", "session_ended", "capability_missing"],
  },
  resumeSession: {
    method: "POST",
    path: "/v1/sessions/{id}/resume",
    scope: "control",
    owner: byPath,
    tag: "sandbox",
    summary: "Resumes a paused session (extension)",
    answer: done("Every process runs again"),
    errors: ["session_not_found", "capability_missing"],
  },
  runCommand: {
    method: "POST",
    path: "/v1/sessions/{id}/commands",
    scope: "control",
    owner: byPath,
    tag: "sandbox",
    summary: "Runs a shell command in the sandbox; its output and its end are events (extension)",
    headers: IDEMPOTENCY,
    body: { kind: "json", schema: RunCommand },
    answer: json("The started command", responses.StartedCommand),
    errors: [
      "invalid_request",
      "session_not_found",
      "session_ended",
      "session_busy",
      "idempotency_conflict",
      "too_large",
    ],
  },
  listShelf: {
    method: "GET",
    path: "/v1/checkpoints",
    scope: "read",
    tag: "sandbox",
    summary: "The checkpoints of all sessions, or of one checkpoint store, newest first (extension)",
    query: z.object({ shelf: z.string().optional(), ...page }),
    answer: json("The checkpoints", responses.CheckpointList),
    errors: ["invalid_request", "invalid_cursor"],
  },
  getHost: {
    method: "GET",
    path: "/v1/sessions/{id}/hosts/{port}",
    scope: "control",
    owner: byPath,
    tag: "sandbox",
    summary:
      "The address of a sandbox's port on the server's host: a listener on loopback without a token, open to every user of that machine (extension)",
    answer: json("The address", responses.Host),
    errors: ["invalid_request", "session_not_found", "session_ended", "capability_missing"],
  },
  listCheckpoints: {
    method: "GET",
    path: "/v1/sessions/{id}/checkpoints",
    scope: "read",
    owner: byPath,
    tag: "sandbox",
    summary: "The checkpoints of a session, newest first (extension)",
    query: z.object(page),
    answer: json("The checkpoints", responses.CheckpointList),
    errors: ["invalid_request", "invalid_cursor", "session_not_found"],
  },
  createCheckpoint: {
    method: "POST",
    path: "/v1/sessions/{id}/checkpoints",
    scope: "control",
    owner: byPath,
    tag: "sandbox",
    summary: "Creates a checkpoint of an idle session: its files and its agent's memory (extension)",
    headers: IDEMPOTENCY,
    body: { kind: "json", schema: responses.CreateCheckpoint },
    answer: json("The checkpoint", responses.Checkpoint),
    errors: [
      "invalid_request",
      "session_not_found",
      "session_busy",
      "idempotency_conflict",
      "capability_missing",
      "storage_full",
    ],
  },
  restoreCheckpoint: {
    method: "POST",
    path: "/v1/sessions/{id}/restore",
    scope: "control",
    owner: byPath,
    tag: "sandbox",
    summary: "Restores an idle session from a checkpoint, of this session or another (extension)",
    headers: IDEMPOTENCY,
    body: { kind: "json", schema: responses.RestoreCheckpoint },
    answer: json("The restored checkpoint", responses.Checkpoint),
    errors: [
      "invalid_request",
      "session_not_found",
      "session_ended",
      "session_busy",
      "idempotency_conflict",
      "checkpoint_not_found",
      "capability_missing",
    ],
  },
  moveSession: {
    method: "POST",
    path: "/v1/sessions/{id}/move",
    scope: "control",
    owner: byPath,
    tag: "sandbox",
    summary:
      "Moves an idle session to a sandbox of another provider, with its files and its agent's memory (extension)",
    headers: IDEMPOTENCY,
    body: { kind: "json", schema: responses.MoveSession },
    answer: json("The session, in its new sandbox", SessionInfo),
    errors: [
      "invalid_request",
      "session_not_found",
      "session_ended",
      "session_busy",
      "idempotency_conflict",
      "unsupported_sandbox",
      "capability_missing",
      "sandbox_unreachable",
    ],
  },
});

/** A session's sandbox as a whole: its processes, its ports, its checkpoints. */
export function mountSandbox(mount: Mount): void {
  mount(sandboxOperations.pauseSession, ({ engine, param }) => engine.pause(param("id")));

  mount(sandboxOperations.resumeSession, ({ engine, param }) => engine.resume(param("id")));

  mount(sandboxOperations.runCommand, async ({ engine, c, body, param }) =>
    c.json(await engine.exec(param("id"), body, { key: idempotencyKeyOf(c) })),
  );

  mount(sandboxOperations.listShelf, async ({ engine, c, query: { shelf, ...query } }) =>
    c.json(await readPage(query, (page) => engine.shelved(shelf, page))),
  );

  mount(sandboxOperations.getHost, async ({ engine, c, param }) => {
    const url = await engine.host(param("id"), parseWith(PortNumber, param("port"), "path"));
    return c.json({ url: url.href });
  });

  mount(sandboxOperations.listCheckpoints, async ({ engine, c, query, param }) =>
    c.json(await readPage(query, (page) => engine.checkpoints(param("id"), page))),
  );

  mount(sandboxOperations.createCheckpoint, async ({ engine, c, body, param }) =>
    c.json(await engine.checkpoint(param("id"), { ...body, key: idempotencyKeyOf(c) })),
  );

  mount(sandboxOperations.restoreCheckpoint, async ({ engine, c, body, param }) =>
    c.json(await engine.restore(param("id"), body.checkpoint, { key: idempotencyKeyOf(c) })),
  );

  mount(sandboxOperations.moveSession, async ({ engine, c, body, param }) =>
    c.json(await engine.move(param("id"), body.sandbox, { key: idempotencyKeyOf(c) })),
  );
}

/** A page of checkpoints; one more is read, to know whether more follow. */
async function readPage<Checkpoint extends { readonly id: string }>(
  { cursor, limit }: { cursor?: string | undefined; limit: number },
  read: (page: CheckpointPage) => Promise<Checkpoint[]>,
): Promise<{ checkpoints: Checkpoint[]; next?: string }> {
  const found = await read({ limit: limit + 1, before: cursor });
  const checkpoints = found.slice(0, limit);
  const last = checkpoints.at(-1);
  return found.length > limit && last ? { checkpoints, next: last.id } : { checkpoints };
}
