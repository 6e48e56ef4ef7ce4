import Anthropic from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startServer, type TestServer } from "../../support/server.ts";
import {
  type Event,
  history,
  isEnd,
  isRunning,
  makeSession,
  message,
  ofType,
  text,
  watch,
} from "./session-bench.ts";
import { ASKING } from "./toolsets.ts";

let server: TestServer;
let beta: Anthropic["beta"];
beforeAll(async () => {
  server = await startServer();
  beta = new Anthropic({ apiKey: server.token, baseURL: `${server.url}/anthropic`, maxRetries: 2 }).beta;
}, 60_000);
afterAll(() => server.close());

const send = (id: string, ...events: object[]) => beta.sessions.events.send(id, { events: events as never });

async function killAndStart(): Promise<void> {
  await server.kill();
  await server.start();
}

async function untilIdle(id: string): Promise<Event[]> {
  for (let tries = 0; tries < 1500; tries++) {
    const events = await history({ beta }, id);
    const last = events.at(-1);
    if (last && isEnd(last)) return events;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(JSON.stringify(await history({ beta }, id)));
}

describe("C8: kill -9", () => {
  it("of the server does not change an idle session", async () => {
    const { id } = await makeSession({ beta }, { session: { title: "kept", metadata: { a: "b" } } });
    await watch({ beta }, id, () => send(id, message(text({ shell: "echo hi" }, { say: "one" }))));
    const [events, session] = [await history({ beta }, id), await beta.sessions.retrieve(id)];
    await killAndStart();
    expect(await history({ beta }, id)).toEqual(events);
    expect(await beta.sessions.retrieve(id)).toMatchObject({ ...session, updated_at: expect.any(String) });
    const more = await watch({ beta }, id, () => send(id, message(text({ say: "two" }))));
    expect(await history({ beta }, id)).toEqual([...events, ...more]);
  });

  it("during a run: earlier events stay, and the run continues", async () => {
    const { id } = await makeSession({ beta });
    const before = await watch(
      { beta },
      id,
      () =>
        send(
          id,
          message(text({ say: "one" }, { sleep: 1500 }, { say: "two" })),
          message(text({ say: "three" })),
        ),
      (event) => event.type === "agent.message",
    );
    await killAndStart();
    let events = await untilIdle(id);
    while (ofType(events, "session.status_idle").length < 2) events = await untilIdle(id);
    const told = before.filter((event) => (event as { processed_at?: string | null }).processed_at !== null);
    expect(events.slice(0, told.length)).toEqual(told);
    const words = ofType(events, "agent.message").map(({ content }) => content);
    expect(words).toEqual(["one", "two", "three"].map((word) => [{ type: "text", text: word }]));
    expect(ofType(events, "user.message")).toHaveLength(2);
  });

  it("during a pending request: the request stays open under the same id", async () => {
    const { id } = await makeSession({ beta }, { tools: [ASKING] });
    const first = await watch({ beta }, id, () =>
      send(id, message(text({ shell: "echo hi" }, { say: "done" }))),
    );
    const tool_use_id = ofType(first, "agent.tool_use")[0]?.id;
    await killAndStart();
    expect(await history({ beta }, id)).toEqual(first);
    const confirmation = { type: "user.tool_confirmation", tool_use_id, result: "allow" };
    const second = await watch({ beta }, id, () => send(id, confirmation), isEnd);
    await killAndStart();
    expect(await history({ beta }, id)).toEqual([...first, ...second]);
  });

  it("between a send and its response: the resend appends nothing", async () => {
    const { id } = await makeSession({ beta });
    const body = JSON.stringify({ events: [message(text({ sleep: 300 }, { say: "once" }))] });
    const post = (count: string) =>
      server.fetch(`/anthropic/v1/sessions/${id}/events`, {
        method: "POST",
        body,
        headers: { "anthropic-beta": "managed-agents-2026-04-01", "x-stainless-retry-count": count },
      });
    await watch({ beta }, id, () => post("0"), isRunning);
    await killAndStart();
    expect((await post("1")).status).toBe(200);
    expect(ofType(await untilIdle(id), "user.message")).toHaveLength(1);
  });
});
