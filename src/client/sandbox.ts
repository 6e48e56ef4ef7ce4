import type { z } from "zod";
import type * as responses from "../contract/responses.ts";
import { fromResponse } from "./errors.ts";
import { type CallOptions, type KeyOptions, pathOf, type Transport } from "./transport.ts";

export type FileEntry = z.infer<typeof responses.FileEntry>;

export type FileContent = Uint8Array | string | Blob | ReadableStream<Uint8Array>;

/** The files of a session's sandbox. Paths are absolute in the sandbox or relative to its workspace. */
export interface FsClient {
  entries(session: string, path?: string, options?: CallOptions): Promise<FileEntry[]>;
  stat(session: string, path: string, options?: CallOptions): Promise<FileEntry>;
  read(session: string, path: string, options?: CallOptions): Promise<Uint8Array>;
  /** Streams a file of any size. */
  stream(session: string, path: string, options?: CallOptions): Promise<ReadableStream<Uint8Array>>;
  /** Writes a file. A stream is sent without buffering. */
  write(session: string, path: string, content: FileContent, options?: CallOptions): Promise<void>;
  mkdir(session: string, path: string, options?: CallOptions): Promise<void>;
  move(session: string, move: z.infer<typeof responses.MoveFile>, options?: CallOptions): Promise<void>;
  remove(session: string, path: string, options?: CallOptions & { recursive?: boolean }): Promise<void>;
  /** Unpacks a tar archive into the folder `path`. */
  uploadBatch(session: string, path: string, tar: FileContent, options?: CallOptions): Promise<void>;
}

/** Each response is kept for as long as its body: Node empties the unread body of a response that nobody holds. */
const responseOf = new WeakMap<ReadableStream<Uint8Array>, Response>();

function toHeldBody(response: Response): ReadableStream<Uint8Array> {
  const body = response.body ?? new Blob([]).stream();
  responseOf.set(body, response);
  return body;
}

export function createFsClient(transport: Transport): FsClient {
  return {
    async entries(session, path = ".", { signal } = {}) {
      return transport.json<FileEntry[]>("/v1/fs/entries", { query: { session, path }, signal });
    },
    async stat(session, path, { signal } = {}) {
      return transport.json<FileEntry>("/v1/fs/stat", { query: { session, path }, signal });
    },
    async read(session, path, { signal } = {}) {
      const response = await transport.call("/v1/fs/file", { query: { session, path }, signal });
      return new Uint8Array(await response.arrayBuffer());
    },
    async stream(session, path, { signal } = {}) {
      const response = await transport.call("/v1/fs/file", { query: { session, path }, signal });
      return toHeldBody(response);
    },
    async write(session, path, content, { signal } = {}) {
      const body = content as BodyInit;
      const headers = { "content-type": "application/octet-stream" };
      await transport.done("/v1/fs/file", { method: "PUT", query: { session, path }, headers, body, signal });
    },
    async mkdir(session, path, { signal } = {}) {
      await transport.done("/v1/fs/mkdir", { method: "POST", query: { session, path }, signal });
    },
    async move(session, move, { signal } = {}) {
      await transport.done("/v1/fs/move", { method: "POST", query: { session }, json: move, signal });
    },
    async remove(session, path, { recursive, signal } = {}) {
      await transport.done("/v1/fs/entry", { method: "DELETE", query: { session, path, recursive }, signal });
    },
    async uploadBatch(session, path, tar, { signal } = {}) {
      const body = tar as BodyInit;
      const headers = { "content-type": "application/x-tar" };
      await transport.done("/v1/fs/upload-batch", {
        method: "POST",
        query: { session, path },
        headers,
        body,
        signal,
      });
    },
  };
}

export type Checkpoint = z.infer<typeof responses.Checkpoint>;

/** The checkpoints of a session. `create` and `restore` need a session without a running turn. */
export interface CheckpointsClient {
  /** Newest first. */
  list(session: string, options?: CallOptions & { limit?: number; cursor?: string }): Promise<Checkpoint[]>;
  /** The checkpoints of one store; without a name, those of all sessions without a store of their own. Newest first. */
  shelved(store?: string, options?: CallOptions & { limit?: number | undefined }): Promise<Checkpoint[]>;
  create(session: string, options?: KeyOptions & { comment?: string }): Promise<Checkpoint>;
  /** `checkpoint` is the id of a checkpoint of any session, or `latest`, the newest of this session. */
  restore(session: string, checkpoint: string, options?: KeyOptions): Promise<Checkpoint>;
}

export function createCheckpointsClient(transport: Transport): CheckpointsClient {
  return {
    async list(session, { signal, ...query } = {}) {
      const path = pathOf(session, "checkpoints");
      const body = await transport.json<{ checkpoints: Checkpoint[] }>(path, { query, signal });
      return body.checkpoints;
    },
    async shelved(store, { limit, signal } = {}) {
      const query = { shelf: store, limit };
      const body = await transport.json<{ checkpoints: Checkpoint[] }>("/v1/checkpoints", { query, signal });
      return body.checkpoints;
    },
    create: (session, { comment, ...options } = {}) =>
      transport.json(pathOf(session, "checkpoints"), { ...options, method: "POST", json: { comment } }),
    restore: (session, checkpoint, options = {}) =>
      transport.json(pathOf(session, "restore"), { ...options, method: "POST", json: { checkpoint } }),
  };
}

/** The header of a response of a program in the sandbox. A response without it is the server's own. */
const ANSWERED_BY_PROGRAM = "sluice-port";

export async function hostOf(
  transport: Transport,
  session: string,
  port: number,
  { signal }: CallOptions = {},
): Promise<URL> {
  const { url } = await transport.json<{ url: string }>(pathOf(session, `hosts/${port}`), { signal });
  return new URL(url);
}

/** Resolves with any status of the program; throws only the server's own errors. */
export async function fetchPort(
  transport: Transport,
  path: string,
  init: RequestInit = {},
): Promise<Response> {
  const response = await transport.fetch(path, init);
  if (response.ok || response.headers.has(ANSWERED_BY_PROGRAM)) return response;
  throw await fromResponse(response);
}

/** The server forwards `path` and its query unchanged. */
export function portPath(session: string, port: number, path: string): string {
  return pathOf(session, `ports/${port}/${path.replace(/^\//, "")}`);
}
