import { Readable } from "node:stream";
import type { SluiceClient } from "../../client/index.ts";
import type { SluiceEvent } from "../../contract/index.ts";
import type { StoredEventText } from "../../dialects/port.ts";
import { isKnown, nameUnknown } from "./folder.ts";
import type { Sandboxes, Source } from "./port.ts";

/** Reads sessions from a server, in its universal dialect. */
export function createServerSource(client: SluiceClient, url: string): Source {
  return {
    where: url,
    sessions: ({ status, agent } = {}) => client.sessions.iterate({ status: status && [status], agent }),
    info: (session) => named(session, url, client.sessions.get(session)),
    usage: (query) => client.usage(query),
    read: (session, { after }) =>
      toStored(client.events.iterate(session, { after, extensions: true, limit: 500 })),
    follow: (session, options) => toStored(client.subscribe(session, { ...options, extensions: true })),
    close: () => Promise.resolve(),
  };
}

async function* toStored(events: AsyncIterable<SluiceEvent>): AsyncGenerator<StoredEventText, void> {
  for await (const event of events) {
    yield { sequence: event.sequence, type: event.type, body: JSON.stringify(event) };
  }
}

export function createServerSandboxes(client: SluiceClient, url: string): Sandboxes {
  return {
    where: url,
    has: (session) => isKnown(client.sessions.get(session)),
    files: (session) => ({
      stat: (path) => client.fs.stat(session, path),
      list: (path) => client.fs.entries(session, path),
      read: async (path) => (await client.fs.stream(session, path)) as unknown as AsyncIterable<Uint8Array>,
      write: (path, content) => client.fs.write(session, path, toStream(content)),
      mkdir: (path) => client.fs.mkdir(session, path),
    }),
    checkpoints: (session, { limit }) =>
      named(session, url, client.checkpoints.list(session, limit === undefined ? {} : { limit })),
    checkpoint: (session, { comment }) =>
      named(session, url, client.checkpoints.create(session, comment === undefined ? {} : { comment })),
    move: (session, sandbox) => named(session, url, client.move(session, sandbox)),
    restore: (session, checkpoint) => named(session, url, client.checkpoints.restore(session, checkpoint)),
    close: () => Promise.resolve(),
  };
}

/** Replaces the error of an unknown session by one that names the server. */
export function named<T>(session: string, url: string, answer: Promise<T>): Promise<T> {
  return nameUnknown(url)(session, answer);
}

function toStream(content: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  return Readable.toWeb(Readable.from(content, { objectMode: false })) as ReadableStream<Uint8Array>;
}
