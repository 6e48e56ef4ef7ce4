import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
import { z } from "zod";
import { flag } from "../../dialects/universal/index.ts";
import { streamBody } from "../body/read.ts";
import { defineOperations, json, type Mount } from "../operation.ts";
import type { Services } from "../services.ts";
import * as responses from "../../contract/responses.ts";
import { parseTarFile } from "./tar.ts";
import { byQuery } from "../nodes/owner-rules.ts";

const inSession = z.string().min(1).describe("the session of the sandbox");
const FolderQuery = z.object({ session: inSession, path: z.string().default(".") });
const PathQuery = z.object({ session: inSession, path: z.string().min(1) });

export const fsOperations = defineOperations({
  listEntries: {
    method: "GET",
    path: "/v1/fs/entries",
    scope: "read",
    owner: byQuery,
    tag: "fs",
    summary: "The entries of a folder in the sandbox",
    query: FolderQuery,
    answer: json("The entries", z.array(responses.FileEntry)),
    errors: ["invalid_request", "session_not_found", "file_not_found", "permission_denied"],
  },
  readFile: {
    method: "GET",
    path: "/v1/fs/file",
    scope: "read",
    owner: byQuery,
    tag: "fs",
    summary: "A file's bytes",
    query: PathQuery,
    answer: { status: 200, description: "The bytes", mime: "application/octet-stream" },
    errors: ["invalid_request", "session_not_found", "file_not_found", "permission_denied"],
  },
  writeFile: {
    method: "PUT",
    path: "/v1/fs/file",
    scope: "control",
    owner: byQuery,
    tag: "fs",
    summary: "Writes a file and creates its parent folders",
    query: PathQuery,
    body: { kind: "bytes", mime: "application/octet-stream" },
    answer: json("Written", responses.FileWritten),
    errors: ["invalid_request", "session_not_found", "permission_denied", "too_large"],
  },
  deleteEntry: {
    method: "DELETE",
    path: "/v1/fs/entry",
    scope: "control",
    owner: byQuery,
    tag: "fs",
    summary: "Removes a file, or a folder with its contents",
    query: z.object({ ...PathQuery.shape, recursive: flag().optional() }),
    answer: json("Removed", responses.PathDone),
    errors: ["invalid_request", "session_not_found", "file_not_found", "permission_denied"],
  },
  makeFolder: {
    method: "POST",
    path: "/v1/fs/mkdir",
    scope: "control",
    owner: byQuery,
    tag: "fs",
    summary: "Creates a folder and its parents",
    query: PathQuery,
    answer: json("Created", responses.PathDone),
    errors: ["invalid_request", "session_not_found", "permission_denied"],
  },
  moveFile: {
    method: "POST",
    path: "/v1/fs/move",
    scope: "control",
    owner: byQuery,
    tag: "fs",
    summary: "Moves or renames a file or folder",
    query: z.object({ session: inSession }),
    body: { kind: "json", schema: responses.MoveFile },
    answer: json("Moved", responses.FileMoved),
    errors: ["invalid_request", "session_not_found", "file_not_found", "permission_denied"],
  },
  statFile: {
    method: "GET",
    path: "/v1/fs/stat",
    scope: "read",
    owner: byQuery,
    tag: "fs",
    summary: "The kind, size and time of a path",
    query: PathQuery,
    answer: json("The entry", responses.FileEntry),
    errors: ["invalid_request", "session_not_found", "file_not_found", "permission_denied"],
  },
  uploadBatch: {
    method: "POST",
    path: "/v1/fs/upload-batch",
    scope: "control",
    owner: byQuery,
    tag: "fs",
    summary: "Unpacks a tar archive into a folder; refused as a whole if any entry would leave it",
    query: FolderQuery,
    body: { kind: "bytes", mime: "application/x-tar" },
    answer: json("Written", responses.BatchWritten),
    errors: ["invalid_request", "session_not_found", "permission_denied", "too_large"],
  },
});

/** The files of a session's sandbox. The sandbox itself confines paths. */
export function mountFiles(mount: Mount, { limits, uploads }: Services): void {
  mount(fsOperations.listEntries, async ({ engine, c, query: { session, path } }) => {
    const files = await engine.files(session);
    return c.json(await files.list(path));
  });

  mount(fsOperations.statFile, async ({ engine, c, query: { session, path } }) => {
    const files = await engine.files(session);
    return c.json(await files.stat(path));
  });

  mount(fsOperations.readFile, async ({ engine, c, query: { session, path } }) => {
    const files = await engine.files(session);
    const { size, content } = await files.open(path);
    return c.body(Readable.toWeb(content) as ReadableStream<Uint8Array>, 200, {
      "content-type": "application/octet-stream",
      "content-length": String(size),
      // A file of an agent must not become a page of this origin.
      "x-content-type-options": "nosniff",
      "content-disposition": "attachment",
    });
  });

  mount(fsOperations.writeFile, async ({ engine, c, query: { session, path } }) => {
    const files = await engine.files(session);
    return uploads.with(streamBody(c, limits.file), async (upload) => {
      await files.write(path, createReadStream(upload.path));
      return c.json({ path, bytesWritten: upload.size });
    });
  });

  mount(fsOperations.deleteEntry, async ({ engine, c, query: { session, path, recursive } }) => {
    const files = await engine.files(session);
    await files.remove(path, { recursive: recursive ?? false });
    return c.json({ path });
  });

  mount(fsOperations.makeFolder, async ({ engine, c, query: { session, path } }) => {
    const files = await engine.files(session);
    await files.mkdir(path);
    return c.json({ path });
  });

  mount(fsOperations.moveFile, async ({ engine, c, query: { session }, body: { from, to, overwrite } }) => {
    const files = await engine.files(session);
    await files.move(from, to, { overwrite: overwrite ?? false });
    return c.json({ from, to });
  });

  mount(fsOperations.uploadBatch, async ({ engine, c, query: { session, path } }) => {
    const files = await engine.files(session);
    const root = path.replace(/\/+$/, "") || "/";
    const paths: string[] = [];
    await uploads.with(streamBody(c, limits.file), async (upload) => {
      for (const entry of await parseTarFile(upload.path)) {
        const target = root === "." ? entry.path : `${root === "/" ? "" : root}/${entry.path}`;
        if (!entry.content) {
          await files.mkdir(target);
          continue;
        }
        const { start, size } = entry.content;
        const end = start + size - 1;
        await files.write(target, size === 0 ? "" : createReadStream(upload.path, { start, end }));
        paths.push(target);
      }
    });
    return c.json({ paths });
  });
}
