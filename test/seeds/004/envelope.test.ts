import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EVENT_DATA, SluiceEvent, type PlainEventType } from "../../../src/contract/index.ts";
import { createClient } from "../../../src/client/index.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { DATA, offences } from "./page.ts";
import { create, EVERYTHING, ofType, post, readEvents, runTurn } from "./transcript.ts";

describe("seed 004, UniversalEvent", () => {
  let server: TestServer;
  let plain: SluiceEvent[];
  let whole: SluiceEvent[];
  let withRaw: SluiceEvent[];
  beforeAll(async () => {
    server = await startServer();
    await create(server, "my-session");
    await runTurn(server, "my-session", ...EVERYTHING);
    plain = await readEvents(server, "my-session");
    whole = await readEvents(server, "my-session", "&extensions=true");
    withRaw = await readEvents(server, "my-session", "&include_raw=true");
  });
  afterAll(() => server.close());

  it("every event from the API is wrapped in the envelope, with the page's keys and types and no others", () => {
    expect(plain.length).toBeGreaterThan(80);
    for (const event of plain) expect(offences(event)).toEqual([]);
  });

  it("the contract's own schemas say the same as the page", () => {
    for (const event of whole) {
      expect(SluiceEvent.safeParse(event).error?.issues, JSON.stringify(event)).toBeUndefined();
    }
    for (const type of Object.keys(DATA)) {
      const shape = EVENT_DATA[type as PlainEventType].shape;
      expect(Object.keys(shape).toSorted(), type).toEqual(keysOf(type));
    }
  });

  it("a client that did not ask for extensions sees every type of the page but session.ended, and no other", () => {
    const types = new Set(plain.map((event) => event.type));
    expect([...types].toSorted()).toEqual(
      Object.keys(DATA)
        .filter((type) => type !== "session.ended")
        .toSorted(),
    );
  });

  it("event_id: unique identifier", () => {
    expect(new Set(whole.map((event) => event.event_id)).size).toBe(whole.length);
  });

  it("sequence: monotonic within the session, starts at 1; gapless once extensions are shown", () => {
    expect(whole.map((event) => event.sequence)).toEqual(whole.map((_, index) => index + 1));
    expect(plain[0]).toMatchObject({ sequence: 1, type: "session.started" });
    for (const [index, event] of plain.slice(1).entries()) {
      expect(event.sequence).toBeGreaterThan(plain[index]?.sequence ?? 0);
    }
  });

  it("a second session starts at 1 again", async () => {
    await create(server, "other");
    const [first] = await runTurn(server, "other", { say: "x" });
    expect(first).toMatchObject({ sequence: 1, session_id: "other", type: "session.started" });
  });

  it("time: RFC3339, and never goes back", () => {
    const times = whole.map((event) => Date.parse(event.time));
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(Math.abs((times[0] ?? 0) - Date.now())).toBeLessThan(600_000);
  });

  it("session_id: the session's own; native_session_id: the provider's, once it is known, and one only", async () => {
    expect(new Set(whole.map((event) => event.session_id))).toEqual(new Set(["my-session"]));
    const natives = whole.flatMap(({ native_session_id: native }) => (native === undefined ? [] : [native]));
    expect(new Set(natives).size).toBe(1);
    const agentEvents = whole.filter((event) => event.source === "agent");
    for (const event of agentEvents) expect(event.native_session_id).toBe(natives[0]);
    const info = (await (await server.fetch("/v1/sessions/my-session")).json()) as {
      nativeSessionId: string;
    };
    expect(info.nativeSessionId).toBe(natives[0]);
  });

  it("source: agent or daemon; synthetic exactly when it is the daemon", () => {
    expect(new Set(whole.map((event) => event.source))).toEqual(new Set(["agent", "daemon"]));
    for (const event of whole) expect(event.synthetic).toBe(event.source === "daemon");
  });

  it("raw: by the client's own getEvents, in the words of the page", async () => {
    const client = createClient({ url: server.url, token: server.token });
    const events = await client.getEvents("my-session", { includeRaw: true });
    expect(events).toEqual(withRaw);
    expect(events.some((event) => typeof event.raw === "object" && event.raw !== null)).toBe(true);
    expect((await client.getEvents("my-session", { includeRaw: true, limit: 2 })).length).toBe(events.length);
  });

  it("raw: only when include_raw=true, and nothing else changes", () => {
    for (const event of [...plain, ...whole]) expect(event).not.toHaveProperty("raw");
    const without = structuredClone(withRaw);
    for (const event of without) delete event.raw;
    expect(without).toEqual(plain);
    for (const event of withRaw) expect(offences(event, { raw: true })).toEqual([]);
  });

  it("raw: the original provider payload of every event of the agent, and of none of the daemon's", () => {
    for (const event of withRaw) {
      if (event.source === "daemon")
        expect(event, `#${event.sequence} ${event.type}`).not.toHaveProperty("raw");
      else expect(event, `#${event.sequence} ${event.type}`).toHaveProperty("raw");
    }
    for (const event of ofType(withRaw, "item.delta")) {
      expect(event.raw).toMatchObject({ id: event.data.native_item_id, text: event.data.delta });
    }
    expect(ofType(withRaw, "agent.unparsed")[0]?.raw).toBe("what no decoder knows");
  });

  it("raw: byte for byte what the agent printed, numbers and escapes included, on pages and on SSE", async () => {
    const line =
      '{"type":"error","code":"x","message":"\\u00e9\\/","details":{"n":1.0,"big":12345678901234567890}}';
    await create(server, "verbatim");
    await runTurn(server, "verbatim", { raw: line });
    await post(server, "verbatim/terminate");
    for (const path of ["events?limit=1000&", "events/sse?"]) {
      const response = await server.fetch(`/v1/sessions/verbatim/${path}include_raw=true&extensions=true`);
      const text = await response.text();
      expect(text).toContain(`"raw":${line}`);
    }
  });
});

/** The keys of a type's data that the page's own check accepts. */
function keysOf(type: string): string[] {
  const all =
    "metadata reason terminated_by message exit_code stderr item item_id native_item_id delta permission_id action " +
    "status question_id prompt options response code details error location raw_hash";
  return all
    .split(" ")
    .filter((key) => !(DATA[type]?.({ [key]: 0 }, "") ?? []).some((text) => text === `.${key} is on no page`))
    .toSorted();
}
