import { z } from "zod";
import { flag } from "../dialects/universal/index.ts";
import * as answers from "./answers.ts";
import { defineOperation, json } from "./operation.ts";

/** The calls on the files of a session's sandbox. */

const inSession = z.string().min(1).describe("the session whose sandbox is meant");
const FolderQuery = z.object({ session: inSession, path: z.string().default(".") });
const PathQuery = z.object({ session: inSession, path: z.string().min(1) });

export const fsOperations = {
  listEntries: defineOperation({
    id: "listEntries",
    method: "GET",
    path: "/v1/fs/entries",
    tag: "fs",
    summary: "What is in a folder of the sandbox",
    query: FolderQuery,
    answer: json("The entries", z.array(answers.FileEntry)),
    errors: ["invalid_request", "session_not_found", "file_not_found", "permission_denied"],
  }),
  readFile: defineOperation({
    id: "readFile",
    method: "GET",
    path: "/v1/fs/file",
    tag: "fs",
    summary: "A file's bytes",
    query: PathQuery,
    answer: { status: 200, description: "The bytes", mime: "application/octet-stream" },
    errors: ["invalid_request", "session_not_found", "file_not_found", "permission_denied"],
  }),
  writeFile: defineOperation({
    id: "writeFile",
    method: "PUT",
    path: "/v1/fs/file",
    tag: "fs",
    summary: "Writes a file, with the folders above it",
    query: PathQuery,
    body: { kind: "bytes", mime: "application/octet-stream" },
    answer: json("Written", answers.FileWritten),
    errors: ["invalid_request", "session_not_found", "permission_denied", "too_large"],
  }),
  deleteEntry: defineOperation({
    id: "deleteEntry",
    method: "DELETE",
    path: "/v1/fs/entry",
    tag: "fs",
    summary: "Removes a file, or a folder with all that is in it",
    query: z.object({ ...PathQuery.shape, recursive: flag().optional() }),
    answer: json("Removed", answers.PathDone),
    errors: ["invalid_request", "session_not_found", "file_not_found", "permission_denied"],
  }),
  makeFolder: defineOperation({
    id: "makeFolder",
    method: "POST",
    path: "/v1/fs/mkdir",
    tag: "fs",
    summary: "Makes a folder, with those above it",
    query: PathQuery,
    answer: json("Made", answers.PathDone),
    errors: ["invalid_request", "session_not_found", "permission_denied"],
  }),
  moveFile: defineOperation({
    id: "moveFile",
    method: "POST",
    path: "/v1/fs/move",
    tag: "fs",
    summary: "Moves or renames",
    query: z.object({ session: inSession }),
    body: { kind: "json", schema: answers.MoveFile },
    answer: json("Moved", answers.FileMoved),
    errors: ["invalid_request", "session_not_found", "file_not_found", "permission_denied"],
  }),
  statFile: defineOperation({
    id: "statFile",
    method: "GET",
    path: "/v1/fs/stat",
    tag: "fs",
    summary: "What a path is",
    query: PathQuery,
    answer: json("The entry", answers.FileEntry),
    errors: ["invalid_request", "session_not_found", "file_not_found", "permission_denied"],
  }),
  uploadBatch: defineOperation({
    id: "uploadBatch",
    method: "POST",
    path: "/v1/fs/upload-batch",
    tag: "fs",
    summary: "Unpacks a tar archive into a folder; refused as a whole if any entry would leave it",
    query: FolderQuery,
    body: { kind: "bytes", mime: "application/x-tar" },
    answer: json("Written", answers.BatchWritten),
    errors: ["invalid_request", "session_not_found", "permission_denied", "too_large"],
  }),
} as const;
