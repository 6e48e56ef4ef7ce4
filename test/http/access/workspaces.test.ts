import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { script } from "../../support/engine.ts";
import { type AccessBench, OPERATOR, openAccess } from "./access-bench.ts";

const A = "key-of-a";
const B = "key-of-b";
let bench: AccessBench;
beforeEach(async () => {
  bench = await openAccess();
});
afterEach(() => bench.close());

const status = async (token: string, method: string, path: string, json?: unknown): Promise<number> => {
  const response = await bench.as(token, method, path, json === undefined ? {} : { json });
  await response.body?.cancel();
  return response.status;
};

const run = (threadId: string, text: string): object => ({
  threadId,
  runId: `run-${threadId}`,
  messages: [{ id: "m1", role: "user", content: text }],
  state: {},
  tools: [],
  context: [],
  forwardedProps: {},
});

async function createAnthropic(key: string): Promise<string> {
  const post = async (path: string, json: object): Promise<string> => {
    const response = await bench.as(key, "POST", `/anthropic/v1/${path}`, { json });
    if (!response.ok) throw new Error(await response.text());
    return ((await response.json()) as { id: string }).id;
  };
  const agent = await post("agents", { name: "n", model: "scripted" });
  const environment_id = await post("environments", { name: "e", config: { type: "cloud" } });
  return post("sessions", { agent, environment_id });
}

/** Creates a session of workspace A in one dialect; returns its id in the log. */
const CREATE: Record<string, () => Promise<string>> = {
  universal: async () => {
    expect(await status(A, "POST", "/v1/sessions/of-a", { agent: "scripted" })).toBe(200);
    return "of-a";
  },
  "ag-ui": async () => {
    const response = await bench.as(A, "POST", "/ag-ui/scripted", {
      json: run("of-a", script({ say: "hi" })),
    });
    expect([response.status, (await response.text()).includes("RUN_FINISHED")]).toEqual([200, true]);
    return "of-a";
  },
  ndjson: async () => {
    const json = { prompt: script({ say: "hi" }), conversation: "of-a" };
    const response = await bench.as(A, "POST", "/ndjson/stream", { json });
    expect([response.status, (await response.text()).includes('"result"')]).toEqual([200, true]);
    return "of-a";
  },
  anthropic: () => createAnthropic(A),
};

describe.each(Object.keys(CREATE))("a session of one workspace, made by %s", (dialect) => {
  it("does not exist for the other one, in any dialect", async () => {
    const id = await (CREATE[dialect] as () => Promise<string>)();
    const { token: narrow } = await bench.token({ scope: "control" });
    const { token: tokenOfB } = await bench.token({ scope: "admin", workspace: "b" });
    for (const other of [B, tokenOfB, narrow]) {
      const refused: [string, string, unknown?][] = [
        ["GET", `/v1/sessions/${id}`],
        ["GET", `/v1/sessions/${id}/spec`],
        ["PATCH", `/v1/sessions/${id}`, { title: "taken" }],
        ["GET", `/v1/sessions/${id}/events`],
        ["GET", `/v1/sessions/${id}/events/sse`],
        ["POST", `/v1/sessions/${id}/messages`, { message: "x" }],
        ["POST", `/v1/sessions/${id}/interrupt`],
        ["POST", `/v1/sessions/${id}/terminate`],
        ["POST", `/v1/sessions/${id}/commands`, { command: "true" }],
        ["GET", `/v1/sessions/${id}/checkpoints`],
        ["GET", `/v1/fs/entries?session=${id}`],
        ["DELETE", `/v1/sessions/${id}`],
        ["POST", "/v1/sessions/copy", { agent: "scripted", fork: { session: id } }],
        ["GET", `/anthropic/v1/sessions/${id}`],
        ["GET", `/anthropic/v1/sessions/${id}/events`],
        ["DELETE", `/anthropic/v1/sessions/${id}`],
        ["GET", `/ag-ui/scripted?threadId=${id}&offset=-1`],
        ["DELETE", `/ag-ui/scripted?threadId=${id}`],
        ["GET", `/ndjson/conversations/${id}`],
        ["DELETE", `/ndjson/conversations/${id}`],
        ["GET", `/ndjson/chat/stream?conversation=${id}&turn=turn_1`],
        ["POST", "/ndjson/chat", { prompt: "x", conversation: id }],
      ];
      for (const [method, path, json] of refused)
        expect([method, path, await status(other, method, path, json)]).toEqual([method, path, 404]);
      expect(await status(other, "POST", "/ag-ui/scripted", run(id, "x"))).toBeGreaterThanOrEqual(400);
      for (const path of ["/v1/sessions", "/v1/checkpoints", "/anthropic/v1/sessions"])
        expect(await (await bench.as(other, "GET", path)).text()).not.toContain(id);
    }
    expect(await status(A, "GET", `/v1/sessions/${id}`)).toBe(200);
    expect(await (await bench.as(A, "GET", "/v1/sessions")).text()).toContain(id);
    expect(await (await bench.as(OPERATOR, "GET", "/v1/sessions")).text()).toContain(id);
    const { token } = await bench.token({ scope: "control", workspace: "a" });
    expect(await status(token, "PATCH", `/v1/sessions/${id}`, { title: "ours" })).toBe(200);
    expect(await status(token, "DELETE", `/v1/sessions/${id}`)).toBe(204);
  });
});

describe("a workspace", () => {
  it.each([
    ["a folder of the server", { directory: "/etc" }],
    ["a file of the server", { cassette: { file: "/etc/passwd", mode: "replay" } }],
    ["a file beside its own", { cassette: { file: "../own/a.jsonl", mode: "auto" } }],
    ["a program of the server", { agent: "acp", command: ["/root/bin/agent"] }],
    ["a variable of the server", { secrets: { X: "env:HOME" } }],
    ["a file of the server", { secrets: { X: "file:/etc/passwd" } }],
    ["an image of the server", { image: "debian" }],
    ["more of the machine", { limits: { memoryBytes: 1 } }],
    ["no isolation", { sandbox: "local" }],
    ["the whole network", { network: "full" }],
    ["this machine", { network: { allow: ["127.0.0.1:80"] } }],
    ["a private name", { network: { allow: ["*"], private: ["db.internal"] } }],
    ["an MCP server inside", { mcp: { m: { type: "http", url: "http://10.0.0.1/" } } }],
  ])("cannot reach %s", async (_, spec) => {
    expect(await status(A, "POST", "/v1/sessions/x", { agent: "scripted", ...spec })).toBe(403);
    const { prompt, ...rest } = { prompt: "x", agent: "scripted", ...spec };
    expect(await status(A, "POST", "/ndjson/chat", { prompt, ...rest })).toBeGreaterThanOrEqual(400);
    expect(await status(OPERATOR, "GET", "/v1/sessions/x")).toBe(404);
  });

  it("changes no session so that it reaches them", async () => {
    expect(await status(A, "POST", "/v1/sessions/x", { agent: "scripted" })).toBe(200);
    const mcp = { m: { type: "http", url: "http://127.0.0.1/" } };
    expect(await status(A, "PATCH", "/v1/sessions/x", { mcp })).toBe(403);
  });

  it("does not see that a name is taken by reading, and cannot take it over", async () => {
    expect(await status(A, "POST", "/v1/sessions/x", { agent: "scripted" })).toBe(200);
    expect(await status(B, "GET", "/v1/sessions/x")).toBe(404);
    expect(await status(B, "POST", "/v1/sessions/x", { agent: "scripted" })).toBe(409);
  });

  it("has its own keys of requests", async () => {
    const chat = async (key: string): Promise<{ conversation: string }> => {
      const headers = { "idempotency-key": "same" };
      const json = { prompt: script({ say: "hi" }) };
      const response = await bench.as(key, "POST", "/ndjson/chat", { json, headers });
      expect(response.status).toBe(200);
      return (await response.json()) as { conversation: string };
    };
    expect((await chat(A)).conversation).not.toBe((await chat(B)).conversation);
  });
});
