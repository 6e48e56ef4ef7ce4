import { readFileSync } from "node:fs";
import { join } from "node:path";
import { BadRequestError } from "@anthropic-ai/sdk";
import { describe, expect, it } from "vitest";
import { collect } from "../../http/anthropic/anthropic-bench.ts";
import {
  type Event,
  history,
  isEnd,
  makeSession,
  ofType,
  typesOf,
  watch,
} from "../../http/anthropic/session-bench.ts";
import { type Claim, complaintsAbout } from "./official.ts";
import { reader, type Reader, useReader } from "./page.ts";

useReader();

const PAGE = {
  user: [
    "user.message",
    "user.interrupt",
    "user.custom_tool_result",
    "user.tool_confirmation",
    "user.tool_result",
  ],
  agent: [
    "agent.message",
    "agent.thinking",
    "agent.tool_use",
    "agent.tool_result",
    "agent.mcp_tool_use",
    "agent.mcp_tool_result",
    "agent.custom_tool_use",
    "agent.thread_context_compacted",
  ],
  session: [
    "session.status_running",
    "session.status_rescheduled",
    "session.status_idle",
    "session.status_terminated",
    "session.deleted",
    "session.updated",
    "session.error",
  ],
  span: ["span.model_request_start", "span.model_request_end"],
  system: ["system.message"],
};
const RECOGNISED = [
  "agent.thread_message_received",
  "agent.thread_message_sent",
  "session.thread_created",
  "session.thread_status_running",
  "session.thread_status_idle",
  "session.thread_status_rescheduled",
  "session.thread_status_terminated",
];

describe("Claude Managed Agents groups events into five domains: user, agent, session, span, and system events.", () => {
  it("every type of the page can be asked for", async () => {
    const { id } = await makeSession(reader);
    for (const type of [...Object.values(PAGE).flat(), ...RECOGNISED]) {
      const response = await reader.get(`/sessions/${id}/events?types[]=${type}`);
      expect([type, response.status]).toEqual([type, 200]);
    }
  });

  it("Recognized for SDK compatibility; not emitted without multi-agent thread support", async () => {
    const { id } = await makeSession(reader);
    const steps = [{ subagent: { name: "helper", steps: [{ shell: "echo sub" }, { say: "sub" }] } }];
    await reader.run(id, ...steps, { say: "done" });
    expect(await collect(reader.beta.sessions.events.list(id, { types: RECOGNISED as never }))).toEqual([]);
    expect((await history(reader, id)).length).toBeGreaterThan(3);
  });

  it("Outcome events are not supported: a clear 400 in one request, and their types are only filters", async () => {
    const { id } = await makeSession(reader);
    const outcome = {
      type: "user.define_outcome",
      description: "d",
      rubric: { type: "text", content: "c" },
    };
    const refused = reader.send(id, outcome);
    await expect(refused).rejects.toBeInstanceOf(BadRequestError);
    await expect(refused).rejects.toThrow(/outcome/i);
    const types = ["user.define_outcome", "span.outcome_evaluation_start", "span.outcome_evaluation_end"];
    expect(await collect(reader.beta.sessions.events.list(id, { types: types as never }))).toEqual([]);
    expect(await history(reader, id)).toEqual([]);
  });

  it("Memory has no standalone memory.* event family, and does not exist here", async () => {
    const { id, agentId, environmentId } = await makeSession(reader);
    expect((await reader.get(`/sessions/${id}/events?types[]=memory.created`)).status).toBe(400);
    const resources = [{ type: "memory_store", memory_store_id: "memstore_1" }] as const;
    const created = reader.beta.sessions.create({
      agent: agentId,
      environment_id: environmentId,
      resources: [...resources],
    });
    await expect(created).rejects.toBeInstanceOf(BadRequestError);
    await expect(created).rejects.toThrow(/memory/i);
    await expect(reader.beta.memoryStores.create({ name: "m" })).rejects.toThrow(/memory/i);
  });
});

describe("tracks the current official event shape", () => {
  it("the SDK's own declarations take every event of sessions that did everything, and the sessions", async () => {
    const { events, sessions } = await everything(reader);
    for (const type of Object.values(PAGE).flat()) expect(typesOf(events), type).toContain(type);
    const [event] = ofType(events, "session.status_running");
    const claims: Claim[] = [
      ...events.map((value): Claim => ({ type: "StreamSessionEvents", value })),
      ...sessions.map((value): Claim => ({ type: "Session", value })),
      // The compiler reports a missing or unknown field.
      { type: "StreamSessionEvents", value: { ...event, type: "session.status_idle" } },
      { type: "StreamSessionEvents", value: { ...event, thread: "x" } },
    ];
    const complaints = complaintsAbout(claims);
    expect(complaints.slice(0, -2)).toEqual(claims.slice(0, -2).map(() => []));
    expect(complaints.slice(-2)).toEqual([[expect.any(String)], [expect.any(String)]]);
  });

  it("this list of types is the page's own", () => {
    const types = readFileSync(
      join(
        import.meta.dirname,
        "../../../node_modules/@anthropic-ai/sdk/resources/beta/sessions/events.d.ts",
      ),
      "utf8",
    );
    for (const type of [...Object.values(PAGE).flat(), ...RECOGNISED])
      expect(types, type).toMatch(new RegExp(`'${type.replaceAll(".", "\\.")}'|"${type}"`));
  });
});

/** Sessions with every event type of the page's tables. */
async function everything(reader: Reader): Promise<{ events: Event[]; sessions: unknown[] }> {
  const weather = { type: "custom", name: "weather", description: "w", input_schema: { type: "object" } };
  const configs = [{ name: "write", permission_policy: { type: "always_ask" } }];
  const hosted = await makeSession(reader, {
    tools: [{ type: "agent_toolset_20260401", configs }, weather],
    selfHosted: true,
  });
  const { id } = hosted;
  const asked = await reader.run(
    id,
    { think: "hm" },
    { custom: { name: "weather", input: { city: "Rome" } } },
    { shell: "echo hi" },
    { write: { path: "a", content: "a" } },
    { compact: true },
    { say: "done" },
  );
  const [custom] = ofType(asked, "agent.custom_tool_use");
  const content = [
    { type: "text", text: "sunny" },
    { type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL } },
    { type: "document", source: { type: "text", media_type: "text/plain", data: "d" }, title: "t" },
    {
      type: "search_result",
      source: "https://example.com",
      title: "s",
      content: [{ type: "text", text: "found" }],
      citations: { enabled: false },
    },
  ];
  const system = { type: "system.message", content: [{ type: "text", text: "Be brief." }] };
  const result = { type: "user.custom_tool_result", custom_tool_use_id: custom?.id, content };
  const built = await reader.tell(id, [result, system]);
  const [bash] = ofType(built, "agent.tool_use");
  const ran = { type: "user.tool_result", tool_use_id: bash?.id, content, is_error: false };
  const confirming = await reader.tell(id, [ran]);
  const [write] = ofType(confirming, "agent.tool_use");
  const deny_message = "not here";
  const deny = { type: "user.tool_confirmation", tool_use_id: write?.id, result: "deny", deny_message };
  await reader.tell(id, [deny]);
  await reader.beta.sessions.update(id, { title: "t", metadata: { a: "1" }, agent: { tools: [] } });

  const cloud = await makeSession(reader, {
    mcp_servers: [{ type: "url", name: "nowhere", url: "http://127.0.0.1:9/mcp" }],
    tools: [
      { type: "agent_toolset_20260401" },
      {
        type: "mcp_toolset",
        mcp_server_name: "nowhere",
        default_config: { permission_policy: { type: "always_allow" } },
      },
    ],
  });
  await reader.run(
    cloud.id,
    { usage: { input_tokens: 3, output_tokens: 4 } },
    { shell: "echo hi" },
    { mcp: { server: "nowhere", tool: "t", input: { a: 1 } } },
    { image: { data: PIXEL, mimeType: "image/png" } },
    { question: { prompt: "which?", options: ["a", "b"] } },
  );
  await reader.tell(cloud.id, [{ type: "user.interrupt" }], isEnd);
  await reader.run(cloud.id, { refuse: "no" });
  await reader.run(cloud.id, { fail: { kind: "overloaded", times: 1 } }, { fail: { kind: "terminal" } });
  const sessions = [id, cloud.id];
  const found = sessions.map(
    async (one) => (await reader.get(`/sessions/${one}`)).json() as Promise<unknown>,
  );
  const told = [...(await history(reader, id)), ...(await history(reader, cloud.id))];
  const { id: doomed } = await makeSession(reader);
  const last = await watch(
    reader,
    doomed,
    () => reader.beta.sessions.delete(doomed),
    () => false,
  );
  return { events: [...told, ...last], sessions: await Promise.all(found) };
}

const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
