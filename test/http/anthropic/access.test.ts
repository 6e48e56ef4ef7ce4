import { AuthenticationError, BadRequestError, NotFoundError, RateLimitError } from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openApp } from "../app-bench.ts";
import { type AnthropicBench, BETA, envelopeOf, failureOf, KEY, openAnthropic } from "./anthropic-bench.ts";

let bench: AnthropicBench;
beforeAll(async () => {
  bench = await openAnthropic({ workspaces: { "sk-other": "other" } });
});
afterAll(() => bench.close());

const json = { "content-type": "application/json", authorization: `Bearer ${KEY}`, "anthropic-beta": BETA };

describe("A1: the key", () => {
  it("is accepted as a bearer token, as the SDK sends it, and as X-Api-Key", async () => {
    await bench.beta.agents.list();
    const headers = { "x-api-key": KEY, "anthropic-beta": BETA };
    expect((await bench.raw("GET", "/agents", { headers })).status).toBe(200);
  });

  it.each([
    ["a wrong bearer token", { authorization: "Bearer wrong" }],
    ["a wrong X-Api-Key", { "x-api-key": "wrong" }],
    ["none", {}],
  ])("%s gets 401 in the dialect's own words", async (_, headers) => {
    const response = await bench.raw("GET", "/agents", { headers: headers as Record<string, string> });
    expect(response.status).toBe(401);
    const { error } = await envelopeOf(response);
    expect(error.type).toBe("authentication_error");
    expect(error.message).toContain("X-Api-Key");
  });

  it("that is wrong is an AuthenticationError of the SDK, in one request", async () => {
    const { error, requests } = await failureOf(bench, () => bench.clientOf("wrong").beta.files.list());
    expect(error).toBeInstanceOf(AuthenticationError);
    expect([error.type, requests]).toEqual(["authentication_error", 1]);
  });

  it("is no X-Api-Key outside of this dialect", async () => {
    expect((await bench.call("GET", "/v1/sessions", { headers: { "x-api-key": KEY } })).status).toBe(401);
    // A key of a workspace opens that workspace, and as a bearer token alone.
    const foreign = { headers: { authorization: "Bearer sk-other" } };
    const listed = await bench.call("GET", "/v1/sessions", foreign);
    expect([listed.status, await listed.json()]).toEqual([200, { sessions: [] }]);
    expect((await bench.call("GET", "/v1/sessions", { headers: { "x-api-key": "sk-other" } })).status).toBe(
      401,
    );
  });
});

describe("A2: the request id", () => {
  it("is on every answer, and in every error", async () => {
    const { response } = await bench.beta.vaults.list().withResponse();
    expect(response.headers.get("request-id")).toMatch(/^req_/);
    const vault = await bench.beta.vaults.create({ display_name: "v" });
    expect(vault._request_id).toMatch(/^req_\w{15,}$/);
    const { error } = await failureOf(bench, () => bench.beta.vaults.retrieve("vlt_nope"));
    expect(error).toBeInstanceOf(NotFoundError);
    expect(error.requestID).toMatch(/^req_/);
    expect((error.error as { request_id: string }).request_id).toBe(error.requestID);
  });

  it("is also on a 404 and on a download", async () => {
    const response = await bench.raw("PATCH", "/nothing");
    expect(response.status).toBe(404);
    expect((await envelopeOf(response)).error.type).toBe("not_found_error");
    const uploaded = await bench.beta.files.upload({ file: new File(["x"], "x.txt") });
    const download = await bench.beta.files.download(uploaded.id);
    expect(download.headers.get("request-id")).toMatch(/^req_/);
  });
});

describe("A3: the beta header", () => {
  it.each([
    "/sessions",
    "/agents",
    "/environments",
    "/vaults",
    "/vaults/vlt_x/credentials",
    "/environments/e/work/poll",
  ])("is needed for %s, and named", async (path) => {
    const response = await bench.raw("GET", path, { headers: { authorization: `Bearer ${KEY}` } });
    expect(response.status).toBe(400);
    const { error } = await envelopeOf(response);
    expect([error.type, error.message]).toEqual(["invalid_request_error", expect.stringContaining(BETA)]);
  });

  it.each([`foo,${BETA}`, BETA.toUpperCase(), ` ${BETA} , bar`])("may be a list: %s", async (beta) => {
    const headers = { authorization: `Bearer ${KEY}`, "anthropic-beta": beta };
    expect((await bench.raw("GET", "/agents?beta=true", { headers })).status).toBe(200);
  });

  it.each(["2023-06-01", "2026-10-21", "2030-01-01"])("comes with any version: %s", async (version) => {
    const headers = { ...json, "anthropic-version": version };
    expect((await bench.raw("GET", "/agents", { headers })).status).toBe(200);
  });
});

it("A4: files and skills need no beta header", async () => {
  await bench.beta.files.list();
  await bench.beta.files.upload({ file: new File(["a"], "a.txt") });
  await bench.beta.skills.list();
  const headers = { "x-api-key": KEY };
  expect((await bench.raw("GET", "/files", { headers })).status).toBe(200);
});

describe("A5: an unknown resource", () => {
  it.each([
    ["agent", () => bench.beta.agents.retrieve("agent_nope")],
    ["agent's versions", () => bench.beta.agents.versions.list("agent_nope")],
    ["agent to update", () => bench.beta.agents.update("agent_nope", { name: "x" })],
    ["environment", () => bench.beta.environments.retrieve("env_nope")],
    ["vault", () => bench.beta.vaults.retrieve("vlt_nope")],
    ["vault to archive", () => bench.beta.vaults.archive("vlt_nope")],
    ["credential", () => bench.beta.vaults.credentials.retrieve("vcrd_nope", { vault_id: "vlt_nope" })],
    ["file", () => bench.beta.files.retrieveMetadata("file_nope")],
    ["file to download", () => bench.beta.files.download("file_nope")],
    ["skill", () => bench.beta.skills.retrieve("skill_nope")],
  ])("is a NotFoundError in one request: %s", async (_, call) => {
    const { error, requests } = await failureOf(bench, call);
    expect(error).toBeInstanceOf(NotFoundError);
    expect([error.type, requests]).toEqual(["not_found_error", 1]);
  });
});

it.each([
  ["no JSON", "{"],
  ["no object", '"x"'],
  ["nothing of what is needed", "{}"],
  ["no body", undefined],
  ["a wrong type", '{"name":7,"model":"m"}'],
])("A6: %s gets 400, and nothing is stored", async (_, body) => {
  const count = async (): Promise<number> => (await bench.beta.agents.list({ limit: 1000 })).data.length;
  const before = await count();
  const response = await bench.raw("POST", "/agents", { headers: json, ...(body !== undefined && { body }) });
  expect(response.status).toBe(400);
  expect((await envelopeOf(response)).error.type).toBe("invalid_request_error");
  expect(await count()).toBe(before);
});

describe("A8: a limit of requests", () => {
  it("has a Retry-After, which the SDK follows", async () => {
    const limited = await openAnthropic({ rateLimit: { perMinute: 60, burst: 2 } });
    try {
      await limited.beta.files.list();
      await limited.beta.files.list();
      const response = await limited.raw("GET", "/files");
      expect(response.status).toBe(429);
      expect(response.headers.get("retry-after")).toBe("1");
      expect((await envelopeOf(response)).error.type).toBe("rate_limit_error");
      const once = limited.client.withOptions({ maxRetries: 0 });
      await expect(once.beta.files.list()).rejects.toBeInstanceOf(RateLimitError);
      const before = limited.requests();
      await limited.beta.files.list();
      expect(limited.requests() - before).toBeGreaterThan(1);
    } finally {
      await limited.close();
    }
  });
});

describe("A10: the keys of two workspaces", () => {
  it("do not see each other's resources", async () => {
    const other = bench.clientOf("sk-other").beta;
    const agent = await bench.beta.agents.create({ name: "ours", model: "m" });
    const vault = await bench.beta.vaults.create({ display_name: "ours" });
    const file = await bench.beta.files.upload({ file: new File(["ours"], "ours.txt") });
    await bench.beta.environments.create({ name: "same name" });
    await other.environments.create({ name: "same name" });
    for (const call of [
      () => other.agents.retrieve(agent.id),
      () => other.agents.update(agent.id, { name: "theirs" }),
      () => other.vaults.retrieve(vault.id),
      () => other.files.retrieveMetadata(file.id),
      () => other.files.download(file.id),
      () => other.files.delete(file.id),
    ]) {
      expect((await failureOf(bench, call)).error).toBeInstanceOf(NotFoundError);
    }
    expect((await other.agents.list()).data).toEqual([]);
    expect((await other.files.list({ ids: [file.id] })).data).toEqual([]);
    expect((await other.environments.list()).data.length).toBe(1);
  });
});

describe("K7: an unsupported resource", () => {
  it.each([
    ["memory stores", () => bench.beta.memoryStores.create({ name: "m" })],
    ["memory stores, listed", () => bench.beta.memoryStores.list()],
    ["deployments", () => bench.beta.deployments.retrieve("depl_x")],
    ["deployment runs", () => bench.beta.deploymentRuns.list()],
    ["dreams", () => bench.beta.dreams.list()],
  ])("%s: a clear 400 in one request", async (_, call) => {
    const { error, requests } = await failureOf(bench, call);
    expect(error).toBeInstanceOf(BadRequestError);
    expect([error.type, requests]).toEqual(["invalid_request_error", 1]);
    expect(error.message).toContain("not supported here");
  });
});

it("is absent without a catalog", async () => {
  const plain = await openApp({ token: KEY });
  const response = await plain.call("GET", "/anthropic/v1/files", {
    headers: { authorization: `Bearer ${KEY}` },
  });
  expect([response.status, response.headers.get("content-type")]).toEqual([404, "application/problem+json"]);
  await plain.close();
});

it("lets a page of an allowed origin send the SDK's headers and read the request id", async () => {
  const open = await openAnthropic({ allowedOrigins: ["https://app.example"] });
  const response = await open.raw("OPTIONS", "/files", {
    headers: {
      origin: "https://app.example",
      "access-control-request-method": "GET",
      "access-control-request-headers": "anthropic-version,x-stainless-lang",
    },
  });
  expect([response.status, response.headers.get("access-control-allow-headers")]).toEqual([
    204,
    "anthropic-version,x-stainless-lang",
  ]);
  expect(response.headers.get("access-control-expose-headers")).toContain("request-id");
  await open.close();
});
