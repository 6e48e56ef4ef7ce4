import type { CallOptions, Transport } from "./transport.ts";

export interface FileEntry {
  readonly path: string;
  readonly name: string;
  readonly entryType: "file" | "directory" | "symlink" | "other";
  readonly size: number;
  /** Milliseconds since 1970. */
  readonly modified: number;
}

export type FileContent = Uint8Array | string | Blob | ReadableStream<Uint8Array>;

/** The files of a session's sandbox. Paths are absolute in the sandbox or relative to its workspace. */
export interface FsClient {
  entries(session: string, path?: string, options?: CallOptions): Promise<FileEntry[]>;
  stat(session: string, path: string, options?: CallOptions): Promise<FileEntry>;
  read(session: string, path: string, options?: CallOptions): Promise<Uint8Array>;
  /** A file of any size, as it is read. */
  stream(session: string, path: string, options?: CallOptions): Promise<ReadableStream<Uint8Array>>;
  /** A stream is sent as it comes. */
  write(session: string, path: string, content: FileContent, options?: CallOptions): Promise<void>;
  mkdir(session: string, path: string, options?: CallOptions): Promise<void>;
  move(
    session: string,
    move: { from: string; to: string; overwrite?: boolean },
    options?: CallOptions,
  ): Promise<void>;
  remove(session: string, path: string, options?: CallOptions & { recursive?: boolean }): Promise<void>;
  /** Unpacks a tar archive into the folder `path`. */
  uploadBatch(session: string, path: string, tar: FileContent, options?: CallOptions): Promise<void>;
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
      return response.body ?? new Blob([]).stream();
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
