import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { BadRequestError } from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openCredential } from "../../../../src/http/anthropic/vaults/credential-secrets.ts";
import { type AnthropicBench, failureOf, openAnthropic } from "../anthropic-bench.ts";
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

describe("B6: validating a credential", () => {
  let server: Server;
  let base: string;
  /** The requests to the servers, and the accepted tokens. */
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

  it("shows why a token is refused, without secrets", async () => {
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

  it("reports a refused refresh and a missing response", async () => {
    const refused = await validate({ token: `${SECRET}-stale`, refresh: `${SECRET}-old` });
    expect(refused.verdict).toMatchObject({
      status: "invalid",
      refresh: { status: "failed", http_response: { status_code: 400 } },
    });
    const nobody = await validate({ url: "http://127.0.0.1:9/mcp" });
    expect(nobody.verdict).toMatchObject({ status: "unknown", mcp_probe: { http_response: null } });
  });

  it("is for OAuth tokens alone", async () => {
    const { id: vault_id } = await bench.beta.vaults.create({ display_name: "v" });
    const auth = { type: "static_bearer" as const, mcp_server_url: URL, token: `${SECRET}-token` };
    const { id } = await bench.beta.vaults.credentials.create(vault_id, { auth });
    const { error } = await failureOf(bench, () =>
      bench.beta.vaults.credentials.mcpOAuthValidate(id, { vault_id }),
    );
    expect(error).toBeInstanceOf(BadRequestError);
  });
});

// Last, so that it covers all tests above.
it("B6: no secret is in any answer, log line, event or file", () => expectNoSecret(bench, answers));
