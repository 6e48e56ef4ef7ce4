import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { collect } from "../../http/anthropic/anthropic-bench.ts";
import {
  history,
  isEnd,
  makeSession,
  message,
  text,
  typesOf,
  watch,
  wordsOf,
} from "../../http/anthropic/session-bench.ts";
import { reader, useReader } from "./page.ts";
import { listEvents, sendUserInput, streamEvents } from "./samples.ts";

useReader();

const logged = (): { lines: unknown[]; console: { log(line: unknown): void } } => {
  const lines: unknown[] = [];
  return { lines, console: { log: (line) => void lines.push(line) } };
};

describe("Events are the durable interface for a session.", () => {
  it("Send user input as events, then list or stream events to observe status, agent output, tool calls, and errors.", async () => {
    const session = await makeSession(reader);
    const streamed = await reader.run(
      session.id,
      { shell: "echo out" },
      { fail: { kind: "overloaded", times: 1 } },
      { say: "hello" },
    );
    for (const type of [
      "session.status_running",
      "agent.tool_use",
      "agent.tool_result",
      "session.error",
      "agent.message",
      "session.status_idle",
    ])
      expect(typesOf(streamed), type).toContain(type);
    expect(await history(reader, session.id)).toEqual(streamed);
  });

  it("Event history is stored outside the sandbox: it survives the sandbox's folder, and the server.", async () => {
    const session = await makeSession(reader);
    await reader.run(session.id, { write: { path: "a.txt", content: "a" } }, { say: "kept" });
    const before = await (await reader.get(`/sessions/${session.id}/events`)).text();
    // SIGTERM ends the idle agents too; the folders with their state are removed.
    await reader.server.stop();
    const sandboxes = join(reader.server.data, "sandboxes");
    for (const name of await readdir(sandboxes)) await rm(join(sandboxes, name), { recursive: true });
    await reader.server.start();
    expect(await (await reader.get(`/sessions/${session.id}/events`)).text()).toBe(before);
    expect((await reader.beta.sessions.retrieve(session.id)).status).toBe("idle");
    expect(await reader.send(session.id, message("and on"))).toHaveLength(1);
  });
});

describe("Send User Input, List Events, Stream Events: the page's own code", () => {
  it("runs as it stands, one sample behind the other", async () => {
    const { client } = reader;
    const session = await makeSession(reader);
    const streamed = logged();
    await streamEvents(client, session, {
      console: streamed.console,
      opened: () => sendUserInput(client, session),
    });
    const words = JSON.stringify(streamed.lines);
    expect(words).toContain("Inspect the test failure and propose a fix.");
    const listed = logged();
    await listEvents(client, session, listed.console);
    expect(listed.lines).toEqual([...streamed.lines.map(() => "agent.message"), "session.status_idle"]);
    // A second read of the stream stops at the second turn's end, not at the first one.
    const again = logged();
    const second = message(text({ say: "second" }));
    await streamEvents(client, session, {
      console: again.console,
      opened: () => reader.send(session.id, second),
    });
    expect(again.lines).toEqual([[{ type: "text", text: "second" }]]);
  });

  it("may break off its stream and read on with the list, or with another stream", async () => {
    const session = await makeSession(reader);
    const first = await watch(
      reader,
      session.id,
      () => reader.send(session.id, message(text({ say: "one" }, { sleep: 300 }, { say: "two" }))),
      ({ type }) => type === "agent.message",
    );
    const rest = await watch(reader, session.id, async () => {}, isEnd);
    const all = await history(reader, session.id);
    const seen = new Set([...first, ...rest].map((event) => (event as { id: string }).id));
    expect(wordsOf(all)).toEqual(["one", "two"]);
    expect(rest.at(-1)).toEqual(all.at(-1));
    expect([...seen].every((id) => all.some((event) => (event as { id: string }).id === id))).toBe(true);
  });
});

describe("Direct HTTP callers can also filter by types[] or types, plus created_at[gt], created_at[gte], created_at[lt], and created_at[lte].", () => {
  interface Page {
    readonly data: { id: string; type: string; processed_at: string }[];
    readonly next_page: string | null;
  }
  let id = "";
  const list = async (query: string): Promise<Page["data"]> => {
    const response = await reader.get(`/sessions/${id}/events?${query}`);
    expect([query, response.status]).toEqual([query, 200]);
    return ((await response.json()) as Page).data;
  };

  beforeAll(async () => {
    ({ id } = await makeSession(reader));
    await reader.run(id, { say: "one" });
    await reader.run(id, { shell: "echo two" }, { say: "two" });
  });

  it("types", async () => {
    const wanted = ["agent.message", "session.status_idle", "agent.message", "session.status_idle"];
    for (const query of [
      "types[]=agent.message&types[]=session.status_idle",
      "types%5B%5D=agent.message&types%5B%5D=session.status_idle",
      "types=agent.message&types=session.status_idle",
      "types=agent.message,session.status_idle",
      "types[]=agent.message&types=session.status_idle",
      "types[0]=agent.message&types[1]=session.status_idle",
    ])
      expect(
        (await list(query)).map(({ type }) => type),
        query,
      ).toEqual(wanted);
  });

  it("created_at, in every writing of a time", async () => {
    const all = await list("");
    const middle = all.find(({ type }) => type === "session.status_idle");
    const at = middle?.processed_at ?? "";
    const time = Date.parse(at);
    const than = (fits: (time: number) => boolean): string[] =>
      all.filter(({ processed_at }) => fits(Date.parse(processed_at))).map((event) => event.id);
    const expected: Record<string, string[]> = {
      gt: than((one) => one > time),
      gte: than((one) => one >= time),
      lt: than((one) => one < time),
      lte: than((one) => one <= time),
    };
    const offset = new Date(time + 2 * 3600_000).toISOString().replace("Z", "+02:00");
    const micro = at.replace("Z", "000Z");
    for (const [bound, ids] of Object.entries(expected))
      for (const written of [at, offset, micro])
        for (const name of [`created_at[${bound}]`, `created_at%5B${bound}%5D`])
          expect(
            (await list(`${name}=${encodeURIComponent(written)}`)).map((event) => event.id),
            `${name}=${written}`,
          ).toEqual(ids);
    const both = `created_at[gte]=${at}&created_at[lte]=${at}&types[]=session.status_idle`;
    expect((await list(both)).map((event) => event.id)).toEqual([middle?.id]);
    const desc = await list(`order=desc&created_at[lte]=${at}`);
    expect(desc.map((event) => event.id)).toEqual(expected["lte"]?.toReversed());
  });

  it("and what is no filter is refused, never ignored", async () => {
    for (const query of [
      "types[]=agent.massage",
      "types=memory.created",
      "created_at[gt]=yesterday",
      "created_at[gt]=",
      "created_at[ge]=2026-01-01T00:00:00Z",
      "created_at=2026-01-01T00:00:00Z",
      "limit=0",
      "limit=ten",
      "order=up",
      "page=nonsense",
    ]) {
      const response = await reader.get(`/sessions/${id}/events?${query}`);
      expect([query, response.status]).toEqual([query, 400]);
      expect(await response.json()).toMatchObject({ error: { type: "invalid_request_error" } });
    }
  });

  it("an empty list of types is no type, not every one", async () => {
    expect(await list("types[]=")).toEqual([]);
  });

  it("filters hold through every page", async () => {
    const events = await collect(
      reader.beta.sessions.events.list(id, { limit: 1, types: ["session.status_idle", "user.message"] }),
    );
    expect(events.map(({ type }) => type)).toEqual([
      "user.message",
      "session.status_idle",
      "user.message",
      "session.status_idle",
    ]);
  });
});
