import { BadRequestError, NotFoundError } from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openCredential } from "../../../../src/http/anthropic/vaults/credential-secrets.ts";
import { type AnthropicBench, collect, failureOf, openAnthropic } from "../anthropic-bench.ts";
import { URL, SECRET, oauth, expectNoSecret } from "./vault-bench.ts";

let bench: AnthropicBench;

/** All responses to all clients. */
let answers = "";

beforeAll(async () => {
  bench = await openAnthropic();
});

afterAll(() => bench.close());

const seen = <T>(answer: T): T => {
  answers += JSON.stringify(answer);
  return answer;
};

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
  it("show the public fields in resolved form", async () => {
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

  it("keep the secrets that an update leaves out", async () => {
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

  it("are refused without repeating the sent secret", async () => {
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

  it("are deleted with their vault", async () => {
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

  it("belong to one vault, which has at most 20", async () => {
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

// Last, so that it covers all tests above.
it("B6: no secret is in any answer, log line, event or file", () => expectNoSecret(bench, answers));
