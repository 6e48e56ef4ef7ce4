import Anthropic from "@anthropic-ai/sdk";
import { afterAll, beforeAll } from "vitest";
import { startServer, type TestServer } from "../../support/server.ts";
import { type Event, isHalt, message, text, watch } from "../../http/anthropic/session-bench.ts";

/** A reader of the page: the official SDK, unmodified, and a server. */
export interface Reader {
  readonly server: TestServer;
  readonly client: Anthropic;
  readonly beta: Anthropic["beta"];
  send(session: string, ...events: object[]): Promise<Sent[]>;
  /** Sends these events and collects the answers until the turn ends or waits. */
  tell(session: string, events: object[], isLast?: (event: Event) => boolean): Promise<Event[]>;
  /** The same with a script for the agent. */
  run(session: string, ...steps: unknown[]): Promise<Event[]>;
  /** A direct HTTP caller. */
  get(path: string, headers?: Record<string, string>): Promise<Response>;
}

/** Opened before the first test of a file that calls `useReader()`, and closed after the last. */
export let reader: Reader;

export function useReader(options: Parameters<typeof startServer>[0] = {}): void {
  beforeAll(async () => {
    reader = await openReader(options);
  });
  afterAll(() => reader.server.close());
}

export type Sent = Record<string, unknown> & { id: string; type: string };

async function openReader(options: Parameters<typeof startServer>[0]): Promise<Reader> {
  const server = await startServer(options);
  const client = new Anthropic({ apiKey: server.token, baseURL: `${server.url}/anthropic` });
  const { beta } = client;
  const send = async (session: string, ...events: object[]): Promise<Sent[]> => {
    const { data = [] } = await beta.sessions.events.send(session, { events: events as never });
    return data as unknown as Sent[];
  };
  const tell: Reader["tell"] = async (session, events, isLast = isHalt) => {
    const [first] = events as { type?: string }[];
    let isHeard = false;
    // Earlier events may still arrive when the stream opens; they do not answer these.
    const told = await watch(
      { beta },
      session,
      () => send(session, ...events),
      (event) => (isHeard ||= event.type === first?.type) && isLast(event),
    );
    return told.slice(told.findIndex(({ type }) => type === first?.type));
  };
  return {
    server,
    client,
    beta,
    send,
    tell,
    run: (session, ...steps) => tell(session, [message(text(...steps))]),
    get: (path, headers = {}) =>
      server.fetch(`/anthropic/v1${path}`, {
        headers: { "anthropic-beta": "managed-agents-2026-04-01", ...headers },
      }),
  };
}
