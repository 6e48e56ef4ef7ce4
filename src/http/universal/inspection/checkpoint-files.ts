import { Readable } from "node:stream";
import { z } from "zod";
import { CheckpointChanges, CheckpointTree } from "../../../contract/index.ts";
import { flag, whole } from "../../../dialects/universal/index.ts";
import { defineOperations, json, type Mount } from "../../operation.ts";
import { byPath } from "../../nodes/owner-rules.ts";

const ERRORS = ["invalid_request", "session_not_found", "checkpoint_not_found", "permission_denied"] as const;
const page = {
  cursor: z.string().optional().describe("`next` of the previous page"),
  limit: whole(1, 10_000).default(1_000),
};

export const checkpointFileOperations = defineOperations({
  getCheckpointTree: {
    method: "GET",
    path: "/v1/sessions/{id}/checkpoints/{checkpoint}/tree",
    scope: "read",
    owner: byPath,
    tag: "sandbox",
    summary: "The files of a checkpoint's workspace, without restoring it (extension)",
    query: z.object({
      path: z.string().default("."),
      recursive: flag().optional().describe("the folders below, too"),
      ...page,
    }),
    answer: json("The entries of the folder", CheckpointTree),
    errors: [...ERRORS, "file_not_found"],
  },
  readCheckpointFile: {
    method: "GET",
    path: "/v1/sessions/{id}/checkpoints/{checkpoint}/files",
    scope: "read",
    owner: byPath,
    tag: "sandbox",
    summary: "The bytes of a file of a checkpoint, without restoring it; links are not followed (extension)",
    query: z.object({ path: z.string().min(1) }),
    answer: { status: 200, description: "The bytes", mime: "application/octet-stream" },
    errors: [...ERRORS, "file_not_found"],
  },
  diffCheckpoints: {
    method: "GET",
    path: "/v1/sessions/{id}/checkpoints/{checkpoint}/diff/{other}",
    scope: "read",
    owner: byPath,
    tag: "sandbox",
    summary:
      "The changes from one checkpoint to another as a unified diff; binary and large files have one line (extension)",
    query: z.object({
      path: z.string().optional().describe("only this file or folder"),
      names: flag().optional().describe("the changed entries as JSON, without their content"),
      ...page,
    }),
    answer: {
      status: 200,
      description: "The diff as text/x-diff; with `names`, the changes as JSON",
      schema: CheckpointChanges,
      mime: "application/json",
    },
    errors: ERRORS,
  },
});

/** Files of checkpoints. They are read in the storage: no sandbox is opened. */
export function mountCheckpointFiles(mount: Mount): void {
  mount(checkpointFileOperations.getCheckpointTree, async ({ engine, c, query, param }) => {
    const contents = await engine.checkpointContents(param("id"), param("checkpoint"));
    const { path, recursive = false, ...wanted } = query;
    return c.json({ path, ...contents.list(path, { ...wanted, recursive }) });
  });

  mount(checkpointFileOperations.readCheckpointFile, async ({ engine, c, query, param }) => {
    const contents = await engine.checkpointContents(param("id"), param("checkpoint"));
    const { size, content } = contents.open(query.path);
    return c.body(toBody(content), 200, {
      ...DOWNLOAD,
      "content-type": "application/octet-stream",
      "content-length": String(size),
    });
  });

  mount(checkpointFileOperations.diffCheckpoints, async ({ engine, c, query, param }) => {
    const before = await engine.checkpointContents(param("id"), param("checkpoint"));
    const after = await engine.checkpointContents(param("id"), param("other"));
    const { path, names, ...wanted } = query;
    if (names) return c.json(before.changes(after, { path, ...wanted }));
    return c.body(toBody(before.diff(after, { path })), 200, {
      ...DOWNLOAD,
      "content-type": "text/x-diff; charset=utf-8",
    });
  });
}

/** A file of an agent must not become a page of this origin. */
const DOWNLOAD = { "x-content-type-options": "nosniff", "content-disposition": "attachment" };

function toBody(content: AsyncIterable<Uint8Array | string>): ReadableStream<Uint8Array> {
  const bytes = Readable.from(content, { objectMode: false, highWaterMark: 64 * 1024 });
  return Readable.toWeb(bytes) as ReadableStream<Uint8Array>;
}
