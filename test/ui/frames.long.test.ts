import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createParser } from "eventsource-parser";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { decodeEvents } from "../../src/cli/decode-events.ts";
import { FORMAT_NAMES, type SluiceEvent } from "../../src/contract/index.ts";
import { findHarness } from "../../src/harness/index.ts";
import { LogEngine } from "../../src/ui/log/engine.ts";
import type { FromLog } from "../../src/ui/log/protocol.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { seed, toDraft } from "./seed.ts";

const RECORDINGS = resolve(import.meta.dirname, "../harness/recordings");
const START = Date.parse("2026-03-01T09:00:00Z");

/** Every recording of the fixtures: its session's id, its agent and its file. */
const ALL = readdirSync(RECORDINGS).flatMap((folder) =>
  readdirSync(join(RECORDINGS, folder))
    .filter((name) => name.endsWith(".jsonl"))
    .map((name) => ({
      id: `${folder}.${name.slice(0, -6)}`,
      agent: folder.endsWith("-acp") ? "acp" : (folder.split("-")[0] ?? folder),
      file: join(RECORDINGS, folder, name),
    })),
);

let server: TestServer;
let data: string;
beforeAll(async () => {
  data = mkdtempSync(join(tmpdir(), "sluice-server-"));
  const sessions = ALL.map(({ id, agent, file }) => {
    const events = [...decodeEvents(findHarness(agent), readFileSync(file, "utf8"), id)];
    const drafts = events.map(({ body }) => toDraft(JSON.parse(body) as SluiceEvent));
    const command = agent === "acp" && { command: ["agent"] };
    return { id, time: START, spec: { agent, ...command }, batches: [{ time: START, events: drafts }] };
  });
  await seed(data, sessions);
  server = await startServer({ args: ["--sandbox", "local"], data });
}, 60_000);
afterAll(async () => {
  await server?.stop();
  rmSync(data, { recursive: true, force: true });
});

describe("the frames of the page", () => {
  it("18: there are recordings of every agent with a CLI", () => {
    expect(new Set(ALL.map(({ agent }) => agent)).size).toBeGreaterThanOrEqual(7);
    expect(ALL.length).toBeGreaterThan(80);
  });

  it.each(FORMAT_NAMES)(
    "18: for every recording, those of %s are byte for byte those of the HTTP stream",
    { timeout: 60_000 },
    async (format) => {
      const check = async ({ id, agent }: (typeof ALL)[number]): Promise<void> => {
        const own = await projectInPage(await readLog(id), format);
        const { events: pages } = await server.client.frames.page(id, format, { limit: 1000 });
        const count = pages.reduce((sum, { frames }) => sum + frames.length, 0);
        expect(own.length, `${id} of ${agent}`).toBe(count);
        expect(own, `${id} of ${agent}`).toEqual(await readStream(id, format, count));
      };
      for (let at = 0; at < ALL.length; at += 6) await Promise.all(ALL.slice(at, at + 6).map(check));
    },
  );
});

const logs = new Map<string, string[]>();

async function readLog(id: string): Promise<string[]> {
  const known = logs.get(id);
  if (known) return known;
  const events = await server.client.getEvents(id, { extensions: true });
  const texts = events.map((event) => JSON.stringify(event));
  logs.set(id, texts);
  return texts;
}

/** The frames of a log, by the code that the page's worker runs. */
async function projectInPage(events: readonly string[], format: string): Promise<string[]> {
  const rows = await new Promise<unknown>((done, fail) => {
    const engine = new LogEngine((message: FromLog) => {
      if (message.type !== "answer") return;
      if (message.failure === undefined) done(message.result);
      else fail(new Error(message.failure));
    });
    engine.receive({ type: "open", session: "one", proof: null, events: [...events] });
    const given = { from: 1, count: events.length, dialects: [format], raw: false };
    engine.receive({ type: "call", id: 1, name: "frames", given });
  });
  return (rows as { frames: Record<string, string[]> }[]).flatMap(({ frames }) => frames[format] ?? []);
}

/** The first frames of the session's stream. */
async function readStream(id: string, format: string, count: number): Promise<string[]> {
  if (count === 0) return [];
  const found: string[] = [];
  const hangUp = new AbortController();
  const response = await server.fetch(`/v1/sessions/${id}/events/sse?as=${format}`, {
    signal: hangUp.signal,
    headers: { "last-event-id": "0" },
  });
  const parser = createParser({ onEvent: ({ data: text }) => found.push(text) });
  const decoder = new TextDecoder();
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    if (found.length >= count) break;
  }
  hangUp.abort();
  return found;
}
