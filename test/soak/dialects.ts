import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { MANAGED_AGENTS_BETA } from "../../src/http/anthropic/dialect.ts";
import type { TestServer } from "../support/server.ts";
import type { Chance } from "./chance.ts";
import { insist } from "./insist.ts";
import { type Frame, Listener, type Stream } from "./listener.ts";

const PATIENCE_MS = 90_000;

/** One session in one dialect: read live through all faults, and again from the log after its end. */
export interface DialectReader {
  readonly dialect: string;
  readonly live: Listener;
  /** Fails where a replay from the log differs from the live frames. The session has ended. */
  readonly check: () => Promise<void>;
}

export function readUniversal(
  server: TestServer,
  id: string,
  chance: Chance,
  onData: (data: string) => void,
): DialectReader {
  const path = `/v1/sessions/${id}/events/sse?extensions=true&include_raw=true`;
  const stream: Stream = { path, onFrame: isClosing("session.ended") };
  const onFrame = (frame: Frame): boolean => {
    onData(frame.data);
    return isClosing("session.ended")(frame);
  };
  const live = new Listener(server, { path, onFrame }, chance);
  return {
    dialect: "universal",
    live,
    check: () => sameAgain(live, new Listener(server, stream), `${id} in universal`),
  };
}

/** All runs of the thread. Each answer ends with the run that is live, so it asks until it is stopped. */
export function readAgUi(server: TestServer, id: string, agent: string, chance: Chance): DialectReader {
  const path = `/ag-ui/${agent}?threadId=${id}&offset=-1`;
  const live = new Listener(server, { path }, chance);
  return {
    dialect: "ag-ui",
    live,
    async check() {
      for (const deadline = Date.now() + PATIENCE_MS; ; await sleep(200)) {
        const again = await readOnce(server, path);
        if (again.length > live.frames.length && Date.now() < deadline) continue;
        live.stop();
        await live.ended;
        return expect(live.frames, `${id} in ag-ui`).toEqual(again);
      }
    },
  };
}

/** Live only: earlier events are in the list alone. */
export function readAnthropic(server: TestServer, id: string, chance: Chance): DialectReader {
  const headers = { "anthropic-beta": MANAGED_AGENTS_BETA };
  const path = `/anthropic/v1/sessions/${id}/events`;
  const onFrame = isClosing("session.status_terminated");
  const stream = { path: `${path}/stream?beta=true`, headers, onFrame };
  const live = new Listener(server, stream, chance);
  return {
    dialect: "anthropic",
    live,
    async check() {
      const [first] = live.frames;
      // A reader without any frame before the end has no position to resume from.
      if (first?.id === undefined || onFrame(first)) return live.stop();
      const seen = { ...headers, "last-event-id": first.id };
      const again = new Listener(server, { ...stream, headers: seen });
      await sameAgain(live, again, `${id} in anthropic`, 1);
      const told = live.frames.filter((frame) => frame.id?.endsWith("-queued") === false);
      const listed = await listEvents(server, `${path}?beta=true&limit=1000`, headers);
      const from = listed.findIndex((event) => event.id === told[0]?.id);
      expect(
        told.map(({ data }) => JSON.parse(data) as unknown),
        `${id} in anthropic's list`,
      ).toEqual(listed.slice(from));
    },
  };
}

/** One turn. */
export function readNdjson(server: TestServer, id: string, turn: string, chance: Chance): DialectReader {
  const path = `/ndjson/chat/stream?conversation=${id}&turn=${turn}`;
  const stream = { path, onFrame: ({ data }: Frame) => data === '{"type":"done"}' };
  const live = new Listener(server, stream, chance);
  return {
    dialect: "ndjson",
    live,
    check: () => sameAgain(live, new Listener(server, stream), `${id} ${turn} in ndjson`),
  };
}

/** Behind this type, or a deletion, nothing comes. */
function isClosing(type: string): (frame: Frame) => boolean {
  return ({ data }) => data.includes(`"type":"${type}"`) || data.includes('"type":"session.deleted"');
}

async function sameAgain(live: Listener, again: Listener, what: string, from = 0): Promise<void> {
  for (const [name, listener] of [
    ["live", live],
    ["again", again],
  ] as const) {
    const left = new AbortController();
    const late = sleep(PATIENCE_MS, true, { signal: left.signal }).catch(() => false);
    const isLate = await Promise.race([listener.ended.then(() => false), late]);
    left.abort();
    listener.stop();
    expect(isLate, `${what}, read ${name}, comes to its end behind ${listener.frames.at(-1)?.data}`).toBe(
      false,
    );
  }
  expect(live.frames.slice(from), what).toEqual(again.frames);
}

/** A whole answer, asked for again where it was cut. */
function readOnce(server: TestServer, path: string): Promise<Frame[]> {
  return insist(async () => {
    const response = await server.fetch(path);
    if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
    return toFrames(await response.text());
  }) as Promise<Frame[]>;
}

function toFrames(text: string): Frame[] {
  return text.split("\n\n").flatMap((block) => {
    const [, data] = /^data: (.*)$/m.exec(block) ?? [];
    return data === undefined ? [] : [{ id: /^id: (.*)$/m.exec(block)?.[1], data }];
  });
}

async function listEvents(
  server: TestServer,
  path: string,
  headers: Record<string, string>,
): Promise<{ id: string }[]> {
  const events: { id: string }[] = [];
  for (let page: string | null = ""; page !== null;) {
    const query: string = page === "" ? path : `${path}&page=${encodeURIComponent(page)}`;
    const answer: { data: { id: string }[]; next_page: string | null } = (await insist(async () => {
      const response = await server.fetch(query, { headers });
      if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
      return response.json();
    })) as never;
    events.push(...answer.data);
    page = answer.next_page;
  }
  return events;
}
