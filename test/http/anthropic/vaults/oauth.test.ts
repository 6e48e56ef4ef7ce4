import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type AnthropicBench, openAnthropic } from "../anthropic-bench.ts";
import {
  type Event,
  history,
  isEnd,
  makeSession,
  message,
  ofType,
  text,
  turn,
  watch,
} from "../session-bench.ts";
import { CALL_DOCS, DOCS_TOOLS, type McpServer, startMcpServer } from "./mcp-server.ts";
import { type OAuthServer, startOAuthServer } from "./oauth-server.ts";

const TEAM_KEY = "sk-test-of-the-team";

let bench: AnthropicBench;
let oauth: OAuthServer;
let docs: McpServer;
beforeAll(async () => {
  bench = await openAnthropic({ workspaces: { [TEAM_KEY]: "team" } });
});
beforeEach(async () => {
  oauth = await startOAuthServer();
  docs = await startMcpServer((authorization) => oauth.isOpen(authorization));
});
afterEach(() => {
  oauth.close();
  docs.close();
});
afterAll(() => bench.close());

interface Wish {
  readonly token_endpoint_auth?: object;
  readonly refresh?: object | null;
  readonly expires_at?: string;
}

/** A session with a credential for the MCP server in its vault. */
async function open(
  wish: Wish = {},
  beta = bench.beta,
): Promise<{ id: string; vault: string; credential: string }> {
  const vault = await beta.vaults.create({ display_name: "v" });
  const refresh = {
    client_id: "client 1",
    refresh_token: oauth.first.refresh_token,
    token_endpoint: oauth.endpoint,
    token_endpoint_auth: wish.token_endpoint_auth ?? { type: "none" },
    ...wish.refresh,
  };
  const auth = {
    type: "mcp_oauth",
    mcp_server_url: docs.url,
    access_token: oauth.first.access_token,
    ...(wish.expires_at !== undefined && { expires_at: wish.expires_at }),
    ...(wish.refresh !== null && { refresh }),
  };
  const credential = await beta.vaults.credentials.create(vault.id, { auth: auth as never });
  const { id } = await makeSession(
    { beta },
    {
      tools: DOCS_TOOLS,
      mcp_servers: [{ type: "url", name: "docs", url: docs.url }],
      session: { vault_ids: [vault.id] },
    },
  );
  return { id, vault: vault.id, credential: credential.id };
}

const pages = (events: readonly Event[]): number =>
  ofType(events, "agent.mcp_tool_result").filter(({ content }) => JSON.stringify(content).includes("page 7"))
    .length;

describe("B6, I5: an OAuth token of a vault", () => {
  it.each([
    [{ type: "none" }, { client_id: "client 1" }, undefined],
    [
      { type: "client_secret_basic", client_secret: "s/cret 1" },
      {},
      `Basic ${Buffer.from("client%201:s%2Fcret%201").toString("base64")}`,
    ],
    [
      { type: "client_secret_post", client_secret: "s/cret 1" },
      { client_id: "client 1", client_secret: "s/cret 1" },
      undefined,
    ],
  ])("that is refused is renewed on the way, by %j", async (token_endpoint_auth, client, authorization) => {
    const { id } = await open({ token_endpoint_auth, refresh: { scope: "read", resource: docs.url } });
    oauth.revoke();
    const events = await turn(bench, id, CALL_DOCS);
    expect(pages(events)).toBe(1);
    expect(ofType(events, "session.error")).toEqual([]);
    const { refresh_token } = oauth.first;
    const form = { grant_type: "refresh_token", refresh_token, scope: "read", resource: docs.url, ...client };
    expect(oauth.asked).toEqual([{ form, authorization }]);
  });

  it("is renewed before use if it has expired", async () => {
    // Almost expired: an expired one could not be stored.
    const expires_at = new Date(Date.now() + 5_000).toISOString();
    const { id, vault, credential } = await open({ expires_at });
    expect(pages(await turn(bench, id, CALL_DOCS))).toBe(1);
    expect(oauth.asked).toHaveLength(1);
    expect(docs.seen).not.toContain(`Bearer ${oauth.first.access_token}`);
    const { auth } = await bench.beta.vaults.credentials.retrieve(credential, { vault_id: vault });
    expect(Date.parse((auth as { expires_at: string }).expires_at)).toBeGreaterThan(Date.now() + 3_000_000);
  });

  it("is renewed once for concurrent callers, each time with the newest refresh token", async () => {
    const { id } = await open();
    expect(pages(await turn(bench, id, CALL_DOCS))).toBe(1);
    for (const round of [1, 2]) {
      oauth.revoke();
      const before = docs.seen.length;
      const events = await turn(bench, id, { parallel: [CALL_DOCS, CALL_DOCS, CALL_DOCS, CALL_DOCS] });
      expect(pages(events)).toBe(4);
      expect(ofType(events, "session.error")).toEqual([]);
      expect(docs.seen.length).toBeGreaterThan(before + 4);
      expect(oauth.asked).toHaveLength(round);
    }
    expect(new Set(oauth.asked.map(({ form }) => form["refresh_token"])).size).toBe(2);
    const told = JSON.stringify([await history(bench, id), bench.lines]);
    for (const token of oauth.tokens) {
      expect(told).not.toContain(token);
      for (const folder of [bench.folder, bench.test.folder]) {
        const found = promisify(execFile)("grep", ["-rlaF", "--devices=skip", token, folder]);
        await expect(found).rejects.toMatchObject({ code: 1 });
      }
    }
  });

  it.each([
    ["cannot be renewed", {}],
    ["has no refresh token", { refresh: null }],
  ])("that %s is told by the server's name, and the session goes on", async (_, wish) => {
    const { id } = await open(wish);
    oauth.forget();
    const events = await turn(bench, id, CALL_DOCS, { say: "on" });
    expect(ofType(events, "session.error").map(({ error }) => error)).toMatchObject([
      { type: "mcp_authentication_failed_error", mcp_server_name: "docs" },
    ]);
    expect(events.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
  });

  it("is that of the session's tenant alone", async () => {
    const { beta } = bench;
    const { id, vault } = await open({}, beta);
    const send = (): PromiseLike<unknown> =>
      beta.sessions.events.send(id, { events: [message(text(CALL_DOCS))] });
    expect(pages(await watch({ beta }, id, send, isEnd))).toBe(1);
    expect(docs.seen.at(-1)).toBe(`Bearer ${oauth.first.access_token}`);
    const { beta: team } = bench.clientOf(TEAM_KEY);
    await expect(team.vaults.retrieve(vault)).rejects.toMatchObject({ status: 404 });
    // The servers of this test are on loopback, where no workspace may go (test/fortress/tenants.long.test.ts).
    await expect(open({}, team)).rejects.toMatchObject({ status: 400 });
  });
});
