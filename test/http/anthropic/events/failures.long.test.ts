import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, collect, failureOf, openAnthropic } from "../anthropic-bench.ts";
import {
  type Event,
  expectListed,
  history,
  isEnd,
  makeSession,
  message,
  ofType,
  text,
  turn,
  typesOf,
  watch,
} from "../session-bench.ts";
import { startMcpServer } from "../vaults/mcp-server.ts";

let bench: AnthropicBench;
beforeAll(async () => {
  bench = await openAnthropic();
});
afterAll(() => bench.close());

const session = (events: readonly Event[]): Event[] =>
  events.filter(({ type }) => type.startsWith("session."));

describe("H1: a model that fails once", () => {
  it("is retried in the same run", async () => {
    const { id } = await makeSession(bench);
    let status = "";
    const stream = await bench.beta.sessions.events.stream(id);
    await bench.send(id, message(text({ fail: { kind: "overloaded", times: 1 } }, { say: "at last" })));
    const events: Event[] = [];
    for await (const event of stream) {
      events.push(event);
      if (event.type === "session.status_rescheduled") ({ status } = await bench.beta.sessions.retrieve(id));
      if (isEnd(event)) break;
    }
    expect(status).toBe("rescheduling");
    expect(typesOf(session(events))).toEqual([
      "session.status_running",
      "session.error",
      "session.status_rescheduled",
      "session.status_running",
      "session.status_idle",
    ]);
    expect(ofType(events, "session.error")[0]?.error).toMatchObject({
      type: "model_overloaded_error",
      retry_status: { type: "retrying" },
    });
    expect(ofType(events, "user.message")).toHaveLength(1);
    expect(events.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
    await expectListed(bench, id, events);
  });
});

describe("H2: a model that keeps failing", () => {
  it("exhausts the retries with one error, and the next message starts a new run", async () => {
    const { id } = await makeSession(bench);
    const events = await turn(bench, id, { fail: { kind: "rate_limited", times: 99 } });
    const errors = ofType(events, "session.error").map(({ error }) => [
      error.type,
      (error as { retry_status: { type: string } }).retry_status.type,
    ]);
    expect(errors.at(-1)).toEqual(["model_rate_limited_error", "exhausted"]);
    expect(errors.slice(0, -1).length).toBeGreaterThan(0);
    expect(errors.slice(0, -1).every(([, status]) => status === "retrying")).toBe(true);
    expect(events.at(-1)).toMatchObject({ stop_reason: { type: "retries_exhausted" } });
    const next = await turn(bench, id, { say: "fresh" });
    expect(next.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
    await expectListed(bench, id, [...events, ...next]);
  });
});

describe("H3: a permanent failure", () => {
  it("ends the session with one error and its streams, and the list stays readable", async () => {
    const { id } = await makeSession(bench);
    const stream = await bench.beta.sessions.events.stream(id);
    await bench.send(id, message(text({ fail: { kind: "terminal" } })));
    const events = (await collect(stream)) as Event[];
    expect(typesOf(session(events))).toEqual([
      "session.status_running",
      "session.error",
      "session.status_terminated",
    ]);
    expect(ofType(events, "session.error")[0]?.error).toMatchObject({ retry_status: { type: "terminal" } });
    expect((await bench.beta.sessions.retrieve(id)).status).toBe("terminated");
    const { error, requests } = await failureOf(bench, () => bench.send(id, message("hi")));
    expect([400, 409]).toContain(error.status);
    expect(requests).toBe(1);
    await expectListed(bench, id, events);
    expect(await collect(await bench.beta.sessions.events.stream(id))).toEqual([]);
  });

  it("also after the process's death, including queued messages", async () => {
    const { id } = await makeSession(bench);
    const stream = await bench.beta.sessions.events.stream(id);
    await bench.send(id, message(text({ sleep: 400 }, { exit: 3 })), message(text({ say: "never" })));
    const events = (await collect(stream)) as Event[];
    expect(typesOf(events).at(-1)).toBe("session.status_terminated");
    expect(ofType(events, "session.error")).toHaveLength(1);
    expect(ofType(events, "session.status_idle")).toEqual([]);
    await expectListed(bench, id, events);
  });
});

describe("H5: an MCP server that cannot be reached", () => {
  it.each([
    ["is down", undefined, "mcp_connection_failed_error"],
    ["refuses", 401, "mcp_authentication_failed_error"],
  ])("%s: told by name, and the session goes on", async (_, status, type) => {
    const server = createServer((_request, response) => response.writeHead(status ?? 200).end());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    if (status === undefined) server.close();
    const toolset = {
      type: "mcp_toolset",
      mcp_server_name: "docs",
      default_config: { permission_policy: { type: "always_allow" } },
    };
    const { id } = await makeSession(bench, {
      tools: [toolset],
      mcp_servers: [{ type: "url", name: "docs", url: `http://127.0.0.1:${port}/mcp` }],
    });
    const events = await turn(bench, id, { mcp: { server: "docs", tool: "find", input: {} } }, { say: "on" });
    server.close();
    server.closeAllConnections();
    expect(ofType(events, "session.error").map(({ error }) => error)).toMatchObject([
      { type, mcp_server_name: "docs" },
    ]);
    expect(ofType(events, "agent.mcp_tool_result")).toMatchObject([{ is_error: true }]);
    expect(events.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
  });
});

describe("G6: a tool of an MCP server", () => {
  it.each(["allow", "deny"])("needs a confirmation by default: %s", async (result) => {
    const server = await startMcpServer(() => true);
    const { id } = await makeSession(bench, {
      tools: [{ type: "mcp_toolset", mcp_server_name: "docs" }],
      mcp_servers: [{ type: "url", name: "docs", url: server.url }],
    });
    const first = await turn(bench, id, { mcp: { server: "docs", tool: "find", input: { q: "x" } } });
    const [use] = ofType(first, "agent.mcp_tool_use");
    expect(use).toMatchObject({
      mcp_server_name: "docs",
      name: "find",
      input: { q: "x" },
      evaluated_permission: "ask",
    });
    const confirmation = { type: "user.tool_confirmation", tool_use_id: use?.id, result };
    const second = await watch(bench, id, () => bench.send(id, confirmation), isEnd);
    server.close();
    expect(second[0]).toMatchObject(confirmation);
    const [answer] = ofType(second, "agent.mcp_tool_result");
    expect(answer).toMatchObject({ mcp_tool_use_id: use?.id, is_error: result === "deny" });
    expect(JSON.stringify(answer?.content).includes("page 7")).toBe(result === "allow");
    await expectListed(bench, id, [...first, ...second]);
    expect((await history(bench, id)).length).toBe(first.length + second.length);
  });
});
