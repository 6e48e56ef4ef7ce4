import { readdir, readFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { BadRequestError, NotFoundError } from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openCredential } from "../../../src/http/anthropic/credential-secrets.ts";
import { readAll } from "../../support/engine.ts";
import { type AnthropicBench, collect, failureOf, openAnthropic } from "./anthropicBench.ts";

const URL = "https://mcp.example/mcp";
const SECRET = "Zq7-hush";
let bench: AnthropicBench;
/** All that any client was ever answered. */
let answers = "";
beforeAll(async () => {
  bench = await openAnthropic();
});
afterAll(() => bench.close());

const seen = <T>(answer: T): T => {
  answers += JSON.stringify(answer);
  return answer;
};

const oauth = () => ({
  type: "mcp_oauth" as const,
  mcp_server_url: URL,
  access_token: `${SECRET}-access`,
  expires_at: "2999-01-01T00:00:00Z",
  refresh: {
    client_id: "client",
    refresh_token: `${SECRET}-refresh`,
    token_endpoint: "https://auth.example/token",
    token_endpoint_auth: { type: "client_secret_post" as const, client_secret: `${SECRET}-client` },
  },
});

describe("B6: a vault", () => {
  it("is created, changed, archived and deleted", async () => {
    const vault = await bench.beta.vaults.create({ display_name: "v", metadata: { a: "1" } });
    expect(vault).toEqual({
      id: expect.stringMatching(/^vlt_/),
      type: "vault",
      display_name: "v",
      metadata: { a: "1" },
      archived_at: null,
      created_at: expect.any(String),
      updated_at: vault.created_at,
    });
    const { id } = vault;
    const updated = await bench.beta.vaults.update(id, { display_name: "w", metadata: { a: null, b: "2" } });
    expect([updated.display_name, updated.metadata]).toEqual(["w", { b: "2" }]);
    const archived = await bench.beta.vaults.archive(id);
    expect(archived.archived_at).not.toBeNull();
    await expect(bench.beta.vaults.update(id, { display_name: "x" })).rejects.toBeInstanceOf(BadRequestError);
    expect((await collect(bench.beta.vaults.list())).map((each) => each.id)).not.toContain(id);
    expect(
      (await collect(bench.beta.vaults.list({ include_archived: true }))).map((each) => each.id),
    ).toContain(id);
    expect(await bench.beta.vaults.delete(id)).toEqual({ id, type: "vault_deleted" });
    await expect(bench.beta.vaults.retrieve(id)).rejects.toBeInstanceOf(NotFoundError);
  });
});

describe("B6: credentials", () => {
  it("show what is not secret, in its resolved form", async () => {
    const { id: vault_id } = await bench.beta.vaults.create({ display_name: "v" });
    const { credentials } = bench.beta.vaults;
    const token = seen(
      await credentials.create(vault_id, {
        auth: { type: "static_bearer", mcp_server_url: URL, token: `${SECRET}-token` },
        display_name: "bearer",
        metadata: { k: "v" },
      }),
    );
    expect(token).toEqual({
      id: expect.stringMatching(/^vcrd_/),
      type: "vault_credential",
      vault_id,
      display_name: "bearer",
      metadata: { k: "v" },
      auth: { type: "static_bearer", mcp_server_url: URL },
      archived_at: null,
      created_at: expect.any(String),
      updated_at: token.created_at,
    });
    const variable = seen(
      await credentials.create(vault_id, {
        auth: {
          type: "environment_variable",
          secret_name: "API_KEY",
          secret_value: `${SECRET}-value`,
          networking: { type: "limited", allowed_hosts: ["*.example.com"] },
        },
      }),
    );
    expect(variable.auth).toEqual({
      type: "environment_variable",
      secret_name: "API_KEY",
      networking: { type: "limited", allowed_hosts: ["*.example.com"] },
      injection_location: { body: false, header: true },
    });
    const signed = seen(await credentials.create(vault_id, { auth: oauth() }));
    expect(signed.auth).toEqual({
      type: "mcp_oauth",
      mcp_server_url: URL,
      expires_at: "2999-01-01T00:00:00Z",
      refresh: {
        client_id: "client",
        token_endpoint: "https://auth.example/token",
        token_endpoint_auth: { type: "client_secret_post" },
        resource: null,
        scope: null,
      },
    });
    for (const { id } of [token, variable, signed]) seen(await credentials.retrieve(id, { vault_id }));
    expect(seen(await collect(credentials.list(vault_id))).length).toBe(3);
  });

  it("keep the secrets that an update leaves out, for those who use them", async () => {
    const { id: vault_id } = await bench.beta.vaults.create({ display_name: "v" });
    const { credentials } = bench.beta.vaults;
    const { id } = await credentials.create(vault_id, { auth: oauth() });
    const stored = () => openCredential(bench.catalog, "default", id);
    const updated = seen(
      await credentials.update(id, {
        vault_id,
        auth: { type: "mcp_oauth", access_token: `${SECRET}-new`, refresh: { scope: "read" } },
        display_name: "named",
      }),
    );
    expect([updated.display_name, updated.auth]).toMatchObject(["named", { refresh: { scope: "read" } }]);
    expect(await stored()).toEqual({
      access_token: `${SECRET}-new`,
      refresh_token: `${SECRET}-refresh`,
      client_secret: `${SECRET}-client`,
    });
    seen(await credentials.archive(id, { vault_id }));
    expect(await stored()).toEqual({});
    expect(await credentials.delete(id, { vault_id })).toEqual({ id, type: "vault_credential_deleted" });
  });

  it.each([
    ["another type", { auth: { type: "static_bearer", token: `${SECRET}-x` } }],
    ["another server", { auth: { type: "mcp_oauth", mcp_server_url: "https://other.example" } }],
    ["a time that is over", { auth: { type: "mcp_oauth", expires_at: "2001-01-01T00:00:00Z" } }],
    ["too much metadata", { metadata: { k: "v".repeat(513) } }],
  ])("take no %s", async (_, params) => {
    const { id: vault_id } = await bench.beta.vaults.create({ display_name: "v" });
    const { id } = await bench.beta.vaults.credentials.create(vault_id, { auth: oauth() });
    const { error } = await failureOf(bench, () =>
      bench.beta.vaults.credentials.update(id, { vault_id, ...params } as never),
    );
    seen(error.error);
    expect(error).toBeInstanceOf(BadRequestError);
  });

  it("are refused without telling what was sent", async () => {
    const { id } = await bench.beta.vaults.create({ display_name: "v" });
    for (const auth of [
      { type: "static_bearer", mcp_server_url: `ftp://${SECRET}`, token: `${SECRET}-token` },
      { type: "environment_variable", secret_name: "A", secret_value: { wrong: `${SECRET}-value` } },
      { type: "none", token: `${SECRET}-token` },
    ]) {
      const { error } = await failureOf(bench, () =>
        bench.beta.vaults.credentials.create(id, { auth } as never),
      );
      seen(error.error);
      expect(error).toBeInstanceOf(BadRequestError);
    }
  });

  it("go with their vault", async () => {
    const { id: vault_id } = await bench.beta.vaults.create({ display_name: "v" });
    const { credentials } = bench.beta.vaults;
    const auth = { type: "static_bearer" as const, mcp_server_url: URL, token: `${SECRET}-token` };
    const { id } = await credentials.create(vault_id, { auth });
    await bench.beta.vaults.archive(vault_id);
    expect((await credentials.retrieve(id, { vault_id })).archived_at).not.toBeNull();
    expect(await openCredential(bench.catalog, "default", id)).toEqual({});
    await expect(credentials.create(vault_id, { auth })).rejects.toBeInstanceOf(BadRequestError);
    await bench.beta.vaults.delete(vault_id);
    expect(await bench.catalog.find("default", "credential", id)).toBeUndefined();
  });

  it("belong to one vault, and are at most 20 of them", async () => {
    const [one, two] = [
      await bench.beta.vaults.create({ display_name: "1" }),
      await bench.beta.vaults.create({ display_name: "2" }),
    ];
    const auth = { type: "static_bearer" as const, mcp_server_url: URL, token: `${SECRET}-token` };
    const { id } = await bench.beta.vaults.credentials.create(one.id, { auth });
    const { error } = await failureOf(bench, () =>
      bench.beta.vaults.credentials.retrieve(id, { vault_id: two.id }),
    );
    expect(error).toBeInstanceOf(NotFoundError);
    for (let n = 1; n < 20; n += 1) await bench.beta.vaults.credentials.create(one.id, { auth });
    const full = await failureOf(bench, () => bench.beta.vaults.credentials.create(one.id, { auth }));
    expect(full.error).toBeInstanceOf(BadRequestError);
  });
});

describe("B6: validating a credential", () => {
  let server: Server;
  let base: string;
  /** What the servers were asked, and what they take. */
  const heard: string[] = [];
  let accepted = `${SECRET}-access`;
  beforeAll(async () => {
    server = createServer((request, response) => {
      let body = "";
      request.on("data", (chunk) => (body += chunk));
      request.on("end", () => {
        heard.push(`${request.url} ${request.headers.authorization ?? ""} ${body}`);
        if (request.url === "/token") {
          const isKnown = body.includes(`refresh_token=${SECRET}-refresh`);
          accepted = `${SECRET}-renewed`;
          response.writeHead(isKnown ? 200 : 400, { "content-type": "application/json" });
          return response.end(
            JSON.stringify(
              isKnown ? { access_token: accepted, expires_in: 60 } : { error: "invalid_grant", body },
            ),
          );
        }
        const isKnown = request.headers.authorization === `Bearer ${accepted}`;
        response.writeHead(isKnown ? 200 : 401, { "content-type": "application/json" });
        return response.end(JSON.stringify({ echo: request.headers.authorization }));
      });
    }).listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(() => new Promise((resolve) => server.close(resolve)));

  const validate = async (patch: { token?: string; url?: string; refresh?: string | null }) => {
    const { id: vault_id } = await bench.beta.vaults.create({ display_name: "v" });
    const { refresh, ...auth } = oauth();
    const { id } = await bench.beta.vaults.credentials.create(vault_id, {
      auth: {
        ...auth,
        mcp_server_url: patch.url ?? `${base}/mcp`,
        access_token: patch.token ?? accepted,
        ...(patch.refresh !== null && {
          refresh: {
            ...refresh,
            token_endpoint: `${base}/token`,
            refresh_token: patch.refresh ?? refresh.refresh_token,
          },
        }),
      },
    });
    return {
      id,
      vault_id,
      verdict: seen(await bench.beta.vaults.credentials.mcpOAuthValidate(id, { vault_id })),
    };
  };

  it("asks the server itself", async () => {
    const { id, vault_id, verdict } = await validate({});
    expect(verdict).toEqual({
      type: "vault_credential_validation",
      credential_id: id,
      vault_id,
      has_refresh_token: true,
      status: "valid",
      mcp_probe: null,
      refresh: null,
      validated_at: expect.any(String),
    });
    expect(heard.at(-1)).toContain('"method":"initialize"');
  });

  it("shows why a token is refused, and nothing secret of it", async () => {
    const { verdict } = await validate({ token: `${SECRET}-stale`, refresh: null });
    expect(verdict).toMatchObject({
      status: "invalid",
      has_refresh_token: false,
      mcp_probe: {
        method: "initialize",
        http_response: { status_code: 401, body: '{"echo":"Bearer [redacted]"}' },
      },
      refresh: { status: "no_refresh_token", http_response: null },
    });
  });

  it("renews a stale token where it can, and keeps the new one", async () => {
    const { id, vault_id, verdict } = await validate({ token: `${SECRET}-stale` });
    expect(verdict).toMatchObject({
      status: "unknown",
      refresh: { status: "succeeded", http_response: null },
    });
    expect(heard.at(-1)).toContain(`client_secret=${SECRET}-client`);
    expect((await openCredential(bench.catalog, "default", id)).access_token).toBe(`${SECRET}-renewed`);
    const again = seen(await bench.beta.vaults.credentials.mcpOAuthValidate(id, { vault_id }));
    expect(again.status).toBe("valid");
  });

  it("says so when the refresh is refused, or nobody answers", async () => {
    const refused = await validate({ token: `${SECRET}-stale`, refresh: `${SECRET}-old` });
    expect(refused.verdict).toMatchObject({
      status: "invalid",
      refresh: { status: "failed", http_response: { status_code: 400 } },
    });
    const nobody = await validate({ url: "http://127.0.0.1:9/mcp" });
    expect(nobody.verdict).toMatchObject({ status: "unknown", mcp_probe: { http_response: null } });
  });

  it("is for tokens of OAuth alone", async () => {
    const { id: vault_id } = await bench.beta.vaults.create({ display_name: "v" });
    const auth = { type: "static_bearer" as const, mcp_server_url: URL, token: `${SECRET}-token` };
    const { id } = await bench.beta.vaults.credentials.create(vault_id, { auth });
    const { error } = await failureOf(bench, () =>
      bench.beta.vaults.credentials.mcpOAuthValidate(id, { vault_id }),
    );
    expect(error).toBeInstanceOf(BadRequestError);
  });
});

// Last, so that it looks at all that the tests above have left.
it("B6: no secret is in any answer, log line, event or file", async () => {
  expect(answers.length).toBeGreaterThan(1000);
  expect(answers).not.toContain(SECRET);
  expect(JSON.stringify(bench.lines)).not.toContain(SECRET);
  const { sessions } = await bench.test.engine.list({ limit: 1000 });
  for (const { sessionId } of sessions)
    expect(JSON.stringify(await readAll(bench.test.log, sessionId, true))).not.toContain(SECRET);
  let looked = 0;
  for (const folder of [bench.folder, bench.test.folder]) {
    for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const bytes = await readFile(join(entry.parentPath, entry.name));
      expect(bytes.includes(SECRET), entry.name).toBe(false);
      looked += 1;
    }
  }
  expect(looked).toBeGreaterThan(2);
});
