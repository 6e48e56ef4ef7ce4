import { once } from "node:events";
import { createServer } from "node:http";
import { describe, expect, it } from "vitest";
import { Desk } from "../../src/gateway/desk.ts";
import { listen, portOf } from "./lab.ts";
import type { SessionSpec } from "../../src/contract/index.ts";
import { harnesses } from "../../src/harness/index.ts";
import { planLead } from "../../src/sessions/secrets/lead-plan.ts";
import { ModelDesk } from "../../src/sessions/secrets/model-desk.ts";

const gateway = { url: async () => "http://127.0.0.1:47117", host: "gateway:1", records: "/records" };

function plan(
  agent: string,
  options: {
    server?: Record<string, string>;
    spec?: Partial<SessionSpec>;
    secrets?: Record<string, string>;
    placeholders?: string[];
    login?: true;
    isBare?: true;
    sharesNetwork?: true;
    addresses?: Record<string, string>;
  },
) {
  const harness = harnesses.find(({ id }) => id === agent);
  if (harness === undefined) throw new Error(`no ${agent}`);
  return planLead({
    harness,
    spec: { agent, ...options.spec },
    credentials: {
      env: options.server ?? {},
      secrets: options.secrets ?? {},
      addresses: options.addresses ?? {},
      ...(options.login ? { login: {} as never } : {}),
    },
    placeholders: options.placeholders ?? [],
    sandbox: options.isBare
      ? {}
      : { gateway: { ...gateway, ...(options.sharesNetwork && { sharesNetwork: true }) } },
  });
}

describe("the place of a credential", () => {
  it("is outside for each agent's key", () => {
    for (const [agent, variable, upstream] of [
      ["claude", "ANTHROPIC_API_KEY", "https://api.anthropic.com"],
      ["codex", "OPENAI_API_KEY", "https://api.openai.com/v1"],
      ["gemini", "GEMINI_API_KEY", "https://generativelanguage.googleapis.com"],
      ["grok", "XAI_API_KEY", "https://api.x.ai/v1"],
      ["opencode", "GEMINI_API_KEY", "https://generativelanguage.googleapis.com/v1beta"],
    ] as const) {
      const { place, led } = plan(agent, { server: { [variable]: "k" } });
      expect([agent, place, led?.key, led?.lead.route.upstream]).toEqual([agent, "outside", "k", upstream]);
    }
  });

  it("keeps the server's key from an address that a session names, and leads a session's own key there", () => {
    const env = { ANTHROPIC_BASE_URL: "https://elsewhere.example" };
    const server = { ANTHROPIC_API_KEY: "k" };
    expect(plan("claude", { server, spec: { env } })).toEqual({ place: "inside" });
    expect(plan("claude", { server, addresses: env }).led?.lead.route.upstream).toBe(env.ANTHROPIC_BASE_URL);
    const own = plan("claude", { spec: { env: { ...env, ANTHROPIC_API_KEY: "mine" } } });
    expect([own.place, own.led?.key]).toEqual(["outside", "mine"]);
    expect(plan("claude", { spec: { env }, secrets: { ANTHROPIC_API_KEY: "mine" } }).place).toBe("outside");
  });

  it("is outside for the session's own key of an Azure resource, and never for the server's", () => {
    const env = { CLAUDE_CODE_USE_FOUNDRY: "1", ANTHROPIC_FOUNDRY_RESOURCE: "res" };
    const secrets = { ANTHROPIC_FOUNDRY_API_KEY: "mine" };
    const foundry = plan("claude", { spec: { env }, secrets }).led;
    expect(foundry?.lead.route).toMatchObject({
      upstream: "https://res.services.ai.azure.com/anthropic",
      auth: { header: "x-api-key" },
    });
    expect(foundry?.lead.variables?.("http://in")).toEqual({
      ANTHROPIC_FOUNDRY_BASE_URL: "http://in",
      ANTHROPIC_FOUNDRY_RESOURCE: "",
    });
    expect(plan("claude", { spec: { env }, server: secrets }).led).toBeUndefined();
    expect(plan("claude", { secrets }).led).toBeUndefined();
    const azure = { OPENAI_BASE_URL: "https://res.openai.azure.com/openai", OPENAI_API_VERSION: "v 1" };
    expect(plan("codex", { spec: { env: { ...azure, OPENAI_API_KEY: "k" } } }).led?.lead.route).toMatchObject(
      {
        provider: "azure",
        auth: { header: "api-key" },
        query: { "api-version": "v 1" },
      },
    );
  });

  it("is outside for the session's own credential of Bedrock and Vertex, and never for the server's", () => {
    const aws = { AWS_SECRET_ACCESS_KEY: "s", AWS_ACCESS_KEY_ID: "i" };
    const env = { CLAUDE_CODE_USE_BEDROCK: "1", AWS_REGION: "eu-west-1" };
    const bedrock = plan("claude", { spec: { env }, secrets: aws }).led;
    expect(bedrock?.lead.route).toMatchObject({
      upstream: "https://bedrock-runtime.eu-west-1.amazonaws.com",
      lists: "https://bedrock.eu-west-1.amazonaws.com",
      auth: { awsRegion: "eu-west-1" },
      tokenInPath: true,
    });
    expect(JSON.parse(bedrock?.key ?? "")).toEqual(aws);
    expect(bedrock?.lead.companions).toEqual(["AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"]);
    const bearer = plan("claude", { spec: { env }, secrets: { AWS_BEARER_TOKEN_BEDROCK: "b" } }).led;
    expect([bearer?.key, bearer?.lead.route.auth]).toEqual([
      "b",
      { header: "authorization", scheme: "Bearer" },
    ]);
    expect(plan("claude", { spec: { env }, server: aws }).led).toBeUndefined();
    const google = { CLAUDE_CODE_USE_VERTEX: "1", CLOUD_ML_REGION: "europe-west1" };
    const vertex = plan("claude", { spec: { env: google }, secrets: { GOOGLE_SERVICE_ACCOUNT_KEY: "{}" } });
    expect(vertex.led?.lead.route).toMatchObject({
      upstream: "https://europe-west1-aiplatform.googleapis.com/v1",
      auth: { googleTokenUrl: "https://oauth2.googleapis.com/token" },
    });
  });

  it("is inside of a sandbox without a network of its own, if the session names a proxy", () => {
    const server = { ANTHROPIC_API_KEY: "k" };
    const env = { https_proxy: "http://proxy.corp.example:3128" };
    expect(plan("claude", { server, spec: { env }, sharesNetwork: true }).place).toBe("inside");
    expect(plan("claude", { server, sharesNetwork: true }).place).toBe("outside");
    expect(plan("claude", { server, spec: { env } }).place).toBe("outside");
  });

  it("is told for what cannot be led", () => {
    const server = { ANTHROPIC_API_KEY: "k" };
    expect(plan("claude", { server, isBare: true }).place).toBe("inside");
    expect(plan("claude", { server: { CLAUDE_CODE_OAUTH_TOKEN: "k" } }).place).toBe("plan_login");
    expect(plan("claude", { login: true }).place).toBe("plan_login");
    expect(plan("claude", { placeholders: ["ANTHROPIC_API_KEY"] })).toEqual({ place: "outside" });
    expect(plan("gemini", { server: { GOOGLE_API_KEY: "k" } }).place).toBe("inside");
    expect(plan("opencode", { server: { OPENCODE_API_KEY: "k" } }).place).toBe("inside");
    expect(plan("amp", { server: { AMP_API_KEY: "k" } }).place).toBe("inside");
    expect(plan("scripted", {}).place).toBe("none");
  });
});

describe("the desk", () => {
  it("answers nobody without the proof, and nothing about a session that is not led", async () => {
    const desk = new ModelDesk();
    const run = { session: "s", createdAt: 1, process: 0 };
    desk.put(run, { keys: { anthropic: "k" } });
    const request = { run, token: "t", nonce: "0123456789abcdef", proof: "0".repeat(64) };
    expect(await desk.answer(request)).toBeUndefined();
    expect(await desk.answer({ ...request, proof: "" })).toBeUndefined();
  });

  it("gives no key without the session's budget, also while a new server takes the session up", async () => {
    const desk = new ModelDesk();
    const run = { session: "s", createdAt: 1, process: 0 };
    desk.put(run, { keys: { anthropic: "k" } });
    const server = await listen(
      createServer(async ({ headers }, response) => {
        const proof = (headers.authorization ?? "").replace("Bearer ", "");
        const answer = await desk.answer({ run, token: "t", nonce: String(headers["sluice-nonce"]), proof });
        if (answer instanceof Buffer) response.end(answer);
        else response.writeHead(404).end();
      }),
    );
    const asked = once(server, "request");
    const gateway = new Desk({ url: `http://127.0.0.1:${portOf(server)}/`, token: "t" });
    const reading = gateway.read();
    await asked;
    const budget = {
      spent: { usd: 0, tokens: 500, requests: 1 },
      ceilings: { tokens: 450 },
      workspace: [],
      at: 0,
      takesUnpriced: false,
      prices: {},
    };
    const leave = desk.account({ id: "s", createdAt: 1 }, async () => ({ budget }));
    const whole = { keys: { anthropic: "k" }, budget };
    // On a busy machine the gateway may give up before the answer is there. Then it asks again.
    expect([undefined, whole]).toContainEqual(await reading);
    await expect.poll(() => gateway.renew()).toEqual(whole);
    leave();
    // The server lets go of the session: what the gateway knows stays valid.
    expect(await gateway.renew()).toEqual(whole);
    server.closeAllConnections();
    server.close();
  });
});
