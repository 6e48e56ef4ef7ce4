import { BadRequestError, ConflictError, NotFoundError } from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, collect, failureOf, openAnthropic } from "../anthropic-bench.ts";

let bench: AnthropicBench;

beforeAll(async () => {
  bench = await openAnthropic();
});

afterAll(() => bench.close());

const allow = { enabled: true, permission_policy: { type: "always_allow" } };

const ask = { enabled: true, permission_policy: { type: "always_ask" } };

describe("B1: an agent", () => {
  it("is returned complete, with every default resolved", async () => {
    const tools = [{ type: "agent_toolset_20260401" as const }];
    const agent = await bench.beta.agents.create({ name: "a", model: "m", tools });
    expect(agent).toEqual({
      id: expect.stringMatching(/^agent_/),
      type: "agent",
      version: 1,
      name: "a",
      description: null,
      model: { id: "m", speed: "standard" },
      system: null,
      tools: [{ type: "agent_toolset_20260401", default_config: allow, configs: [] }],
      mcp_servers: [],
      skills: [],
      multiagent: null,
      execution_identity: { type: "service_account" },
      metadata: {},
      archived_at: null,
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      updated_at: agent.created_at,
    });
    expect(await bench.beta.agents.retrieve(agent.id)).toEqual(agent);
  });

  it("resolves each tool from its set's default, and web tools in their own form", async () => {
    const agent = await bench.beta.agents.create({
      name: "a",
      model: { id: "m", effort: "high", speed: null },
      tools: [
        {
          type: "agent_toolset_20260401",
          default_config: { permission_policy: { type: "always_ask" } },
          configs: [
            { name: "bash", enabled: false },
            { name: "read", permission_policy: { type: "always_allow" } },
            { name: "web_fetch", allowed_domains: ["docs.example.com"], url_sources: { user_input: "none" } },
            { name: "web_search" },
          ],
        },
        {
          type: "custom",
          name: "weather",
          description: "",
          input_schema: { type: "object", additionalProperties: false },
        },
      ],
    });
    expect(agent.model).toEqual({ id: "m", effort: { type: "high" }, speed: "standard" });
    expect(agent.tools).toEqual([
      {
        type: "agent_toolset_20260401",
        default_config: ask,
        configs: [
          { ...ask, type: "bash", name: "bash", enabled: false },
          { ...allow, type: "read", name: "read" },
          {
            ...ask,
            type: "web_fetch",
            name: "web_fetch",
            allowed_domains: ["docs.example.com"],
            url_sources: {
              client_tool_results: null,
              server_tool_results: null,
              user_input: { type: "none" },
            },
          },
          { ...ask, type: "web_search", name: "web_search" },
        ],
      },
      {
        type: "custom",
        name: "weather",
        description: "",
        input_schema: { type: "object", additionalProperties: false },
      },
    ]);
  });

  it.each([
    ["an empty name", { name: "" }],
    ["a long name", { name: "x".repeat(257) }],
    ["a long description", { description: "x".repeat(2049) }],
    ["a long system", { system: "x".repeat(100_001) }],
    [
      "17 keys of metadata",
      { metadata: Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`k${n}`, ""])) },
    ],
    ["a long key", { metadata: { ["k".repeat(65)]: "" } }],
    ["a long value", { metadata: { k: "v".repeat(513) } }],
    ["an unknown tool", { tools: [{ type: "agent_toolset_20260401", configs: [{ name: "fly" }] }] }],
    [
      "a tool twice",
      { tools: [{ type: "agent_toolset_20260401", configs: [{ name: "bash" }, { name: "bash" }] }] },
    ],
    ["a toolset twice", { tools: [{ type: "agent_toolset_20260401" }, { type: "agent_toolset_20260401" }] }],
    [
      "a bad name of a tool",
      { tools: [{ type: "custom", name: "a b", description: "", input_schema: { type: "object" } }] },
    ],
    ["several agents", { multiagent: { type: "coordinator", agents: [{ type: "self" }] } }],
    ["a foreign identity", { execution_identity: { type: "aws_role", role_arn: "arn" } }],
    ["a skill that there is not", { skills: [{ type: "custom", skill_id: "skill_nope" }] }],
  ])("is refused with %s", async (_, params) => {
    const create = () => bench.beta.agents.create({ name: "a", model: "m", ...params } as never);
    const { error, requests } = await failureOf(bench, create);
    expect(error).toBeInstanceOf(BadRequestError);
    expect(requests).toBe(1);
  });

  it("ignores unknown fields", async () => {
    const agent = await bench.beta.agents.create({ name: "a", model: "m", shoe_size: 46 } as never);
    expect(agent).not.toHaveProperty("shoe_size");
  });
});

describe("B2: versions", () => {
  it("lock an update, and stay readable", async () => {
    const { id } = await bench.beta.agents.create({ name: "old", model: "m" });
    const updated = await bench.beta.agents.update(id, { version: 1, name: "new" });
    expect([updated.version, updated.name]).toEqual([2, "new"]);
    const { error, requests } = await failureOf(bench, () =>
      bench.beta.agents.update(id, { version: 1, name: "x" }),
    );
    expect(error).toBeInstanceOf(ConflictError);
    expect(requests).toBe(1);
    const versions = await collect(bench.beta.agents.versions.list(id));
    expect(versions.map(({ version, name }) => [version, name])).toEqual([
      [2, "new"],
      [1, "old"],
    ]);
    expect((await bench.beta.agents.retrieve(id, { version: 1 })).name).toBe("old");
    expect(await bench.beta.agents.retrieve(id, { version: 2 })).toEqual(updated);
    await expect(bench.beta.agents.retrieve(id, { version: 3 })).rejects.toBeInstanceOf(NotFoundError);
    await expect(bench.beta.agents.retrieve(id, { version: 0 })).rejects.toBeInstanceOf(BadRequestError);
  });

  it("are not created by an update without a change", async () => {
    const { id } = await bench.beta.agents.create({ name: "a", model: "m", metadata: { k: "v" } });
    const same = await bench.beta.agents.update(id, {
      name: "a",
      model: "m",
      metadata: { k: "v" },
      tools: [],
    });
    expect(same.version).toBe(1);
    expect((await collect(bench.beta.agents.versions.list(id))).length).toBe(1);
  });

  it("count each of many concurrent updates", async () => {
    const { id } = await bench.beta.agents.create({ name: "a", model: "m" });
    await Promise.all(
      [1, 2, 3, 4].map((n) => bench.beta.agents.update(id, { metadata: { [`k${n}`]: "v" } })),
    );
    const { version, metadata } = await bench.beta.agents.retrieve(id);
    expect([version, Object.keys(metadata).sort()]).toEqual([5, ["k1", "k2", "k3", "k4"]]);
  });
});

it("B3: an update keeps absent fields, and null clears", async () => {
  const server = { type: "url" as const, name: "s", url: "http://127.0.0.1:1/mcp" };
  const { id } = await bench.beta.agents.create({
    name: "a",
    description: "d",
    system: "s",
    metadata: { a: "1", b: "2" },
    model: { id: "m", effort: "low", inference_geo: "eu" },
    tools: [{ type: "mcp_toolset", mcp_server_name: "s" }],
    mcp_servers: [server],
  });
  const kept = await bench.beta.agents.update(id, { metadata: { a: null, c: "3" } });
  expect(kept).toMatchObject({
    description: "d",
    system: "s",
    metadata: { b: "2", c: "3" },
    mcp_servers: [server],
  });
  const model = await bench.beta.agents.update(id, { model: "n" });
  expect(model.model).toEqual({ id: "n", effort: { type: "low" }, speed: "standard" });
  const cleared = await bench.beta.agents.update(id, {
    description: "",
    system: null,
    tools: null,
    mcp_servers: null,
  });
  expect(cleared).toMatchObject({ version: 4, description: null, system: null, tools: [], mcp_servers: [] });
  const { error } = await failureOf(bench, () => bench.beta.agents.update(id, { name: "" }));
  expect(error).toBeInstanceOf(BadRequestError);
});

describe("B4: MCP servers and toolsets", () => {
  const server = { type: "url" as const, name: "s", url: "http://127.0.0.1:1/mcp" };

  it("need a confirmation by default", async () => {
    const { tools } = await bench.beta.agents.create({
      name: "a",
      model: "m",
      mcp_servers: [server],
      tools: [
        {
          type: "mcp_toolset",
          mcp_server_name: "s",
          configs: [{ name: "t", permission_policy: { type: "auto" } }],
        },
      ],
    });
    const config = { name: "t", enabled: true, permission_policy: { type: "auto" } };
    expect(tools).toEqual([
      { type: "mcp_toolset", mcp_server_name: "s", default_config: ask, configs: [config] },
    ]);
  });

  it.each([
    ["a server that no toolset names", { mcp_servers: [server] }],
    ["a toolset of no server", { tools: [{ type: "mcp_toolset", mcp_server_name: "s" }] }],
    [
      "a server twice",
      { mcp_servers: [server, server], tools: [{ type: "mcp_toolset", mcp_server_name: "s" }] },
    ],
    [
      "a name that no URL can hold",
      {
        mcp_servers: [{ ...server, name: "\ud800" }],
        tools: [{ type: "mcp_toolset", mcp_server_name: "\ud800" }],
      },
    ],
    [
      "no URL",
      {
        mcp_servers: [{ ...server, url: "file:///x" }],
        tools: [{ type: "mcp_toolset", mcp_server_name: "s" }],
      },
    ],
  ])("are refused with %s", async (_, params) => {
    const { error } = await failureOf(bench, () =>
      bench.beta.agents.create({ name: "a", model: "m", ...params } as never),
    );
    expect(error).toBeInstanceOf(BadRequestError);
  });
});

it("an archived agent is read-only, hidden from lists, and archived once", async () => {
  const { id } = await bench.beta.agents.create({ name: "a", model: "m" });
  const archived = await bench.beta.agents.archive(id);
  expect([archived.version, typeof archived.archived_at]).toEqual([1, "string"]);
  expect(await bench.beta.agents.archive(id)).toEqual(archived);
  await expect(bench.beta.agents.update(id, { name: "x" })).rejects.toBeInstanceOf(BadRequestError);
  expect(await bench.beta.agents.retrieve(id)).toEqual(archived);
  const ids = async (include_archived: boolean) =>
    (await collect(bench.beta.agents.list({ include_archived }))).map((agent) => agent.id);
  expect(await ids(false)).not.toContain(id);
  expect(await ids(true)).toContain(id);
});
