import { Readable } from "node:stream";
import { SluiceClientError, type SluiceClient } from "../client/index.ts";
import { unknownSession } from "./folderSource.ts";
import type { Sandboxes } from "./sandboxes.ts";

export function createServerSandboxes(client: SluiceClient, url: string): Sandboxes {
  const named = <T>(session: string, answer: Promise<T>): Promise<T> =>
    answer.catch((error: unknown) => {
      throw isUnknown(error) ? unknownSession(session, url) : error;
    });
  return {
    where: url,
    has: (session) =>
      client.sessions.get(session).then(
        () => true,
        (error: unknown) => {
          if (isUnknown(error)) return false;
          throw error;
        },
      ),
    files: (session) => ({
      stat: (path) => client.fs.stat(session, path),
      list: (path) => client.fs.entries(session, path),
      read: async (path) => (await client.fs.stream(session, path)) as unknown as AsyncIterable<Uint8Array>,
      write: (path, content) => client.fs.write(session, path, toStream(content)),
      mkdir: (path) => client.fs.mkdir(session, path),
    }),
    checkpoints: (session, { limit }) =>
      named(session, client.checkpoints.list(session, limit === undefined ? {} : { limit })),
    checkpoint: (session, { comment }) =>
      named(session, client.checkpoints.create(session, comment === undefined ? {} : { comment })),
    restore: (session, checkpoint) => named(session, client.checkpoints.restore(session, checkpoint)),
    close: () => Promise.resolve(),
  };
}

function isUnknown(error: unknown): boolean {
  return error instanceof SluiceClientError && error.code === "session_not_found";
}

function toStream(content: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  return Readable.toWeb(Readable.from(content, { objectMode: false })) as ReadableStream<Uint8Array>;
}
