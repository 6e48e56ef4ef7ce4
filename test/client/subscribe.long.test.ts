import * as fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { createClient, SluiceClientError, type SluiceEvent } from "../../src/client/index.ts";
import { type CuttingServer, startCuttingServer, type Wire, type WireEvent } from "./cutting-server.ts";

const servers: CuttingServer[] = [];

async function start(wire: Wire): Promise<CuttingServer> {
  const server = await startCuttingServer(wire);
  servers.push(server);
  return server;
}

afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

function log(count: number): WireEvent[] {
  const events: WireEvent[] = [];
  for (let sequence = 1; sequence < count; sequence++) {
    // Characters of several bytes, so that cuts fall inside of them.
    events.push({
      sequence,
      type: "item.delta",
      data: { item_id: "itm_1", delta: `wörd ✓ ${sequence} 🙂\n` },
    });
  }
  return [...events, { sequence: count, type: "session.ended", data: { reason: "completed" } }];
}

async function collect(events: AsyncIterable<SluiceEvent>): Promise<SluiceEvent[]> {
  const all: SluiceEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

function drainsTwice(n: number) {
  const body = { type: "urn:sluice:error:draining", title: "", status: 503, detail: "" };
  return n < 2 ? { status: 503, body } : undefined;
}

describe("subscribe", () => {
  it("yields each event once and in order, for any cuts", async () => {
    const cut = fc.record({
      bytes: fc.integer({ min: 0, max: 900 }),
      how: fc.constantFrom("reset" as const, "end" as const),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(cut, { maxLength: 5 }),
        fc.integer({ min: 1, max: 20 }),
        fc.nat({ max: 3 }),
        async (cuts, count, repeat) => {
          const events = log(count);
          const server = await start({ events, repeat, cut: (n) => cuts[n] });
          const client = createClient({ url: server.url });
          expect(await collect(client.subscribe("s"))).toEqual(events);
          await server.close();
        },
      ),
      { numRuns: 60, interruptAfterTimeLimit: 40_000, markInterruptAsFailure: false },
    );
  });

  it("resumes by Last-Event-ID where the connection was cut", async () => {
    const events = log(5);
    const twoFrames = Buffer.byteLength(
      `: hello\n\n${events
        .slice(0, 2)
        .map((event) => `id: ${event.sequence}\ndata: ${JSON.stringify(event)}\n\n`)
        .join(": ping\n\n")}`,
    );
    const server = await start({
      events,
      cut: (n) => (n === 0 ? { bytes: twoFrames, how: "reset" } : undefined),
    });
    const cuts: SluiceClientError[] = [];
    const client = createClient({ url: server.url });
    expect(await collect(client.subscribe("s", { onCut: (error) => cuts.push(error) }))).toEqual(events);
    expect(server.requests).toEqual([
      { path: "/v1/sessions/s/events/sse", lastEventId: undefined, offset: null },
      { path: "/v1/sessions/s/events/sse", lastEventId: "2", offset: null },
    ]);
    expect(cuts.map((error) => error.code)).toEqual(["stream_error"]);
  });

  it("starts behind `after`", async () => {
    const server = await start({ events: log(6) });
    const events = await collect(createClient({ url: server.url }).subscribe("s", { after: 4 }));
    expect(events.map((event) => event.sequence)).toEqual([5, 6]);
  });

  it("replaces a silent connection", async () => {
    const events = log(4);
    const server = await start({ events, cut: (n) => (n < 2 ? { bytes: 150, how: "silence" } : undefined) });
    expect(await collect(createClient({ url: server.url }).subscribe("s", { idleTimeoutMs: 50 }))).toEqual(
      events,
    );
    expect(server.requests).toHaveLength(3);
  });

  it("retries while the server is starting, draining or broken", async () => {
    const events = log(3);
    const server = await start({ events, refuse: drainsTwice });
    expect(await collect(createClient({ url: server.url }).subscribe("s"))).toEqual(events);
  });

  it("reconnects after an absence of the server", async () => {
    const events = log(3);
    const first = await startCuttingServer({ events, cut: () => ({ bytes: 120, how: "reset" }) });
    let server: CuttingServer | undefined;
    const moved = createClient({
      url: "http://sluice.invalid",
      fetch: (input, init) =>
        fetch(String(input).replace("http://sluice.invalid", (server ?? first).url), init),
    });
    const seen: SluiceEvent[] = [];
    let cuts = 0;
    const onCut = () => {
      cuts += 1;
      if (cuts === 1) void first.close();
      if (cuts === 3) void start({ events }).then((next) => (server = next));
    };
    for await (const event of moved.subscribe("s", { onCut })) seen.push(event);
    expect(seen).toEqual(events);
    expect(cuts).toBeGreaterThanOrEqual(3);
  });

  it("ends at once for a cursor behind the end of an ended session", async () => {
    const server = await start({ events: log(3) });
    expect(await collect(createClient({ url: server.url }).subscribe("s", { after: 3 }))).toEqual([]);
  });

  it("ends when the session is deleted", async () => {
    const gone = { type: "urn:sluice:error:session_not_found", title: "", status: 404, detail: "" };
    const server = await start({
      events: log(3),
      cut: () => ({ bytes: 150, how: "reset" }),
      refuse: (n) => (n > 0 ? { status: 404, body: gone } : undefined),
    });
    const events = await collect(createClient({ url: server.url }).subscribe("s"));
    expect(events.map((event) => event.sequence)).toEqual([1]);
  });

  it.each([
    [401, "token_invalid", {}],
    [404, "session_not_found", {}],
    [410, "cursor_gone", { first: 100, last: 200 }],
    [400, "invalid_cursor", {}],
  ] as const)("throws what waiting will not heal: %i %s", async (status, code, facts) => {
    const body = {
      type: `urn:sluice:error:${code}`,
      title: "A title",
      status,
      detail: "What to do.",
      ...facts,
    };
    const server = await start({ events: log(3), refuse: () => ({ status, body }) });
    const failure = await collect(createClient({ url: server.url }).subscribe("s")).catch(
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(SluiceClientError);
    expect(failure).toMatchObject({ status, code, detail: "What to do.", title: "A title", facts });
    expect(server.requests).toHaveLength(1);
  });

  it("ends without an error on abort and leaves no connection open", async () => {
    const server = await start({ events: log(9), cut: () => ({ bytes: 400, how: "silence" }) });
    const stop = new AbortController();
    const seen: number[] = [];
    for await (const event of createClient({ url: server.url }).subscribe("s", { signal: stop.signal })) {
      seen.push(event.sequence);
      if (event.sequence === 2) stop.abort();
    }
    expect(seen).toEqual([1, 2]);
  });

  it("closes the connection when its consumer stops", async () => {
    const server = await start({ events: log(9), cut: () => ({ bytes: 400, how: "silence" }) });
    for await (const event of createClient({ url: server.url }).subscribe("s")) {
      if (event.sequence === 2) break;
    }
    expect(server.requests).toHaveLength(1);
  });
});

describe("events.iterate", () => {
  it("reads page after page", async () => {
    const events = log(25);
    const server = await start({ events });
    expect(await collect(createClient({ url: server.url }).events.iterate("s", { limit: 10 }))).toEqual(
      events,
    );
  });
});
