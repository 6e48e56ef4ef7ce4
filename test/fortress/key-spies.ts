import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { EventOf } from "../../src/contract/index.ts";
import { harnesses } from "../../src/harness/index.ts";
import type { TestServer } from "../support/server.ts";

/** Every variable of a key that any harness knows, each with a value of its own. */
export const KEY_NAMES = [
  ...new Set(
    harnesses.flatMap(({ credentials = [] }) =>
      credentials.flatMap((known) => ("env" in known ? [known.env] : [])),
    ),
  ),
];

export const KEYS = Object.fromEntries(KEY_NAMES.map((name) => [name, canary(name)]));

/** Writes down every canary that it finds in its environment, in that of others, and in its home. */
export const SPY = `{ env; cat /proc/[0-9]*/environ; grep -rhs canary /home/user --exclude-dir=workspace; } 2>/dev/null | grep -aoE 'canary-[A-Za-z0-9_-]+' | sort -u > /home/user/workspace/found`;

/** Each CLI's login as it writes it, its secrets being canaries. */
export function logins(expiresAt: number): Record<string, unknown> {
  const iso = new Date(expiresAt).toISOString();
  return {
    ".claude/.credentials.json": {
      claudeAiOauth: {
        accessToken: canary("claude-access"),
        refreshToken: canary("claude-refresh"),
        expiresAt,
        scopes: ["user:inference"],
        subscriptionType: "max",
      },
      mcpOAuth: {
        "linear|1": { accessToken: canary("claude-mcp"), refreshToken: canary("claude-mcp-refresh") },
      },
    },
    ".codex/auth.json": {
      auth_mode: "chatgpt",
      OPENAI_API_KEY: null,
      tokens: {
        id_token: token(expiresAt, "codex-id"),
        access_token: token(expiresAt, "codex-access"),
        refresh_token: canary("codex-refresh"),
        account_id: "acc",
      },
      last_refresh: new Date().toISOString(),
    },
    ".gemini/oauth_creds.json": {
      access_token: canary("gemini-access"),
      refresh_token: canary("gemini-refresh"),
      token_type: "Bearer",
      scope: "https://www.googleapis.com/auth/cloud-platform",
      expiry_date: expiresAt,
    },
    ".gemini/google_accounts.json": { active: "me@example.com", old: [canary("gemini-old-account")] },
    ".grok/auth.json": {
      "https://idp.example.com::other": {
        key: canary("grok-other"),
        refresh_token: canary("grok-other-refresh"),
      },
      "https://auth.x.ai::b1a00492-073a-47ea-816f-4c329264a828": {
        key: canary("grok-access"),
        auth_mode: "oidc",
        refresh_token: canary("grok-refresh"),
        expires_at: iso,
        oidc_issuer: "https://auth.x.ai",
      },
    },
    ".local/share/opencode/auth.json": {
      groq: { type: "api", key: canary("opencode-groq") },
      anthropic: {
        type: "oauth",
        refresh: canary("opencode-refresh"),
        access: canary("opencode-access"),
        expires: expiresAt,
      },
      openai: { type: "api", key: canary("opencode-openai") },
    },
    ".local/share/amp/secrets.json": {
      "apiKey@https://amp.example.com/": canary("amp-other"),
      "apiKey@https://ampcode.com/": canary("amp-key"),
    },
  };
}

export function writeLogins(home: string, files: Record<string, unknown>): void {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(home, name)), { recursive: true });
    writeFileSync(join(home, name), JSON.stringify(content), { mode: 0o600 });
  }
}

export type Spec = Parameters<TestServer["client"]["sessions"]["create"]>[1];

/** One turn of a session, made where it is not there yet. */
export async function end(
  server: TestServer,
  session: string,
  spec?: Spec,
  words: Parameters<TestServer["client"]["sendMessage"]>[1] = "go",
): Promise<EventOf<"turn.ended">["data"]> {
  if (spec !== undefined) await server.client.sessions.create(session, spec);
  const { turnId } = await server.client.sendMessage(session, words);
  for await (const event of server.client.subscribe(session, { extensions: true })) {
    if (event.type === "turn.ended" && event.data.turn_id === turnId) return event.data;
  }
  throw new Error("the stream ended before the turn");
}

export function readFound(directory: string): string[] {
  const text = readFileSync(join(directory, "found"), "utf8");
  rmSync(join(directory, "found"));
  return text.split("\n").filter(Boolean).sort();
}

export function canary(name: string): string {
  return `canary-${name}-5f21`;
}

/** A token in whose signature the canary stands, so that it can be found as it is. */
function token(expiresAt: number, name: string): string {
  const payload = Buffer.from(JSON.stringify({ exp: Math.floor(expiresAt / 1000) })).toString("base64url");
  return `eyJhbGciOiJub25lIn0.${payload}.${canary(name)}`;
}
