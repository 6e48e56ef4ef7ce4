import { SluiceClientError, type SluiceClient } from "../client/index.ts";
import type { SluiceEvent } from "../contract/index.ts";
import type { StoredEventText } from "../dialects/stored.ts";
import { unknownSession } from "./folderSource.ts";
import type { Source } from "./source.ts";

/** Reads through a server's universal dialect. */
export function createServerSource(client: SluiceClient, url: string): Source {
  return {
    where: url,
    sessions: () => client.sessions.iterate(),
    async info(session) {
      return client.sessions.get(session).catch((error: unknown) => {
        if (error instanceof SluiceClientError && error.status === 404) throw unknownSession(session, url);
        throw error;
      });
    },
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
