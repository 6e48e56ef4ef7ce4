import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { EventOf } from "../../src/contract/index.ts";
import { harnesses } from "../../src/harness/index.ts";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import { type AgentId, requireAgent } from "../support/agents.ts";
import { script } from "../support/engine.ts";
import { LED_TO_MODEL } from "../support/model.ts";
import type { TestServer } from "../support/server.ts";
import { describeFortress, makeFolder, SERVER_USERS, serveAs, type ServerUser } from "./fortressBench.ts";

/** Every variable of a key that any harness knows, each with a value of its own. */
const KEY_NAMES = [
  ...new Set(
    harnesses.flatMap(({ credentials = [] }) =>
      credentials.flatMap((known) => ("env" in known ? [known.env] : [])),
    ),
  ),
];
const KEYS = Object.fromEntries(KEY_NAMES.map((name) => [name, canary(name)]));

/** Writes down every canary that it finds in its environment, in that of others, and in its home. */
const SPY = `{ env; cat /proc/[0-9]*/environ; grep -rhs canary /home/user --exclude-dir=workspace; } 2>/dev/null | grep -aoE 'canary-[A-Za-z0-9_-]+' | sort -u > /home/user/workspace/found`;

/** Speaks Claude Code's stream for one turn, looks around, and ends: every turn is another start. */
const TALKING_SPY = `#!/usr/bin/env node
const say = (line) => process.stdout.write(JSON.stringify({ session_id: "11111111-1111-4111-8111-111111111111", ...line }) + "\\n");
require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { type, request_id } = JSON.parse(line);
  if (type === "control_request") say({ type: "control_response", response: { subtype: "success", request_id, response: {} } });
  if (type !== "user") return;
  require("node:child_process").execFileSync("/bin/sh", ["-c", ${JSON.stringify(SPY)}]);
  say({ type: "system", subtype: "init", tools: [], model: "none" });
  say({ type: "result", subtype: "success", is_error: false, result: "", usage: { input_tokens: 1, output_tokens: 1 } });
  process.stdout.write("", () => process.exit(0));
});
`;

/** Each CLI's login as it writes it, its secrets being canaries. */
function logins(expiresAt: number): Record<string, unknown> {
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

/** Nothing else of the host may be inside: per agent and session, the canaries that it needs. */
const WITH_KEYS: readonly [string, object, readonly string[]][] = [
  ["claude", {}, [canary("ANTHROPIC_API_KEY")]],
  ["claude", { env: { CLAUDE_CODE_USE_BEDROCK: "1", AWS_REGION: "us-east-1" } }, []],
  ["claude", { env: { ANTHROPIC_AUTH_TOKEN: "canary-given" } }, ["canary-given"]],
  ["codex", {}, [canary("OPENAI_API_KEY")]],
  ["opencode", {}, [canary("ANTHROPIC_API_KEY")]],
  ["opencode", { model: "mistral/large" }, [canary("MISTRAL_API_KEY")]],
  ["opencode", { model: "gpt-5" }, [canary("OPENAI_API_KEY")]],
  ["opencode", { model: "unheard-of/model" }, []],
  [
    "opencode",
    { model: "xai/grok", env: { OTHER: "canary-given" } },
    ["canary-given", canary("XAI_API_KEY")],
  ],
  ["gemini", {}, [canary("GEMINI_API_KEY")]],
  ["grok", {}, [canary("XAI_API_KEY")]],
  ["amp", {}, [canary("AMP_API_KEY")]],
];

const WITH_LOGINS: readonly [string, object, readonly string[]][] = [
  ["claude", {}, [canary("claude-access")]],
  ["codex", {}, [canary("codex-access"), canary("codex-id")]],
  ["opencode", {}, [canary("opencode-groq")]],
  ["opencode", { model: "openai/gpt-5" }, [canary("opencode-openai")]],
  ["opencode", { model: "mistral/large" }, []],
  ["gemini", {}, [canary("gemini-access")]],
  ["grok", {}, [canary("grok-access")]],
  ["amp", {}, [canary("amp-key")]],
];

describeFortress("keys and logins of the server's user", (user) => {
  it("are handed over one by one: only what the agent needs, never another provider's", async () => {
    const { server, directory } = await serveSpies(user, { env: KEYS });
    for (const [index, [agent, spec, expected]] of WITH_KEYS.entries()) {
      const found = await spy(server, `s${index}`, { agent, ...spec }, directory);
      expect(found, `${agent} ${JSON.stringify(spec)}`).toEqual([...expected].sort());
    }
  });

  it("are logins without what renews them, and without anybody else's", async () => {
    const { server, directory } = await serveSpies(user, { logins: logins(Date.now() + 3_600_000) });
    for (const [index, [agent, spec, expected]] of WITH_LOGINS.entries()) {
      const found = await spy(server, `s${index}`, { agent, ...spec }, directory);
      expect(found, `${agent} ${JSON.stringify(spec)}`).toEqual([...expected].sort());
    }
    const text = await everyEvent(
      server,
      WITH_LOGINS.map((_, index) => `s${index}`),
    );
    expect(text).not.toContain("canary-");
  });

  it("are refused in words when they have expired, or need what renews them", async () => {
    const { server, directory } = await serveSpies(user, { logins: logins(Date.now() - 60_000) });
    for (const agent of ["claude", "codex", "gemini", "grok"]) {
      const ended = await end(server, agent, { agent, directory });
      expect(JSON.stringify(ended), agent).toMatch(/expired at .*log in there again, or set [A-Z_]+_API_KEY/);
    }
    const ended = await end(server, "opencode", {
      agent: "opencode",
      model: "anthropic/claude-opus-4-5",
      directory,
    });
    expect(JSON.stringify(ended)).toMatch(/set a key of that provider/);
  });

  it("are kept where the agent's own is newer, and replaced where the server's is", async () => {
    const soon = Date.now() + 3_600_000;
    const given = { logins: logins(soon), programs: { claude: TALKING_SPY } };
    const { server, home, directory } = await serveSpies(user, given);
    const inside = (expiresAt: number, name: string): string =>
      JSON.stringify({
        claudeAiOauth: { accessToken: canary(name), refreshToken: canary("rotated-inside"), expiresAt },
      });
    await server.client.sessions.create("s", { agent: "claude", directory });
    let starts = 0;
    const start = async (): Promise<string[]> => {
      const ended = await end(server, "s");
      expect(ended).toMatchObject({ status: "completed" });
      starts += 1;
      await untilEnded(server, "s", starts);
      return readFound(directory);
    };
    expect(await start()).toEqual([canary("claude-access")]);
    await server.client.fs.write("s", "/home/user/.claude/.credentials.json", inside(soon + 60_000, "newer"));
    expect(await start()).toEqual([canary("newer")]);
    const late = JSON.stringify(logins(soon + 120_000)[".claude/.credentials.json"]);
    writeFileSync(join(home, ".claude/.credentials.json"), late);
    expect(await start()).toEqual([canary("claude-access")]);
    await server.client.fs.write("s", "/home/user/.claude/.credentials.json", inside(soon, "older"));
    expect(await start()).toEqual([canary("claude-access")]);
    await server.client.fs.write("s", "/home/user/.claude/.credentials.json", inside(9e15, "for-ever"));
    expect(await start()).toEqual([canary("claude-access")]);
    await server.client.fs.write("s", "/home/user/.claude/.credentials.json", "[".repeat(100_000));
    expect(await start()).toEqual([canary("claude-access")]);
    expect(await everyEvent(server, ["s"])).not.toContain("canary-");
  });

  it("come from no other variable of the server", async () => {
    const others = {
      LC_SECRET: "canary-lc",
      LC_ALL: "C.UTF-8",
      DATABASE_URL: "canary-db",
      AWS_SECRET_ACCESS_KEY: "canary-aws",
    };
    const addresses = { ANTHROPIC_BASE_URL: "https://canary-user@gateway.example/?key=canary-query" };
    const { server, directory } = await serveSpies(user, { env: { ...others, ...addresses } });
    expect(await spy(server, "s", { agent: "claude" }, directory)).toEqual([]);
  });
});

/** The real CLIs with the scripted model: what they start finds no more than they were given. */
const LED: readonly (readonly [AgentId, string])[] = [
  ["claude", "ANTHROPIC_API_KEY"],
  ["codex", "OPENAI_API_KEY"],
  ["opencode", "OPENAI_API_KEY"],
  ["gemini", "GEMINI_API_KEY"],
  ["grok", "XAI_API_KEY"],
];

describe("a real agent with every provider's key and login on its server", { timeout: 120_000 }, () => {
  const models: ScriptedModel[] = [];
  afterEach(async () => {
    for (const model of models.splice(0)) await model.close();
  });

  it.for(LED)("%s works, and what it starts finds its %s alone", async ([id, name], { skip }) => {
    const { path, reason } = requireAgent(id);
    if (path === undefined) return skip(reason);
    const [user] = SERVER_USERS as [ServerUser];
    const model = await createScriptedModel();
    models.push(model);
    const home = await makeFolder(user);
    writeLogins(home, logins(Date.now() + 3_600_000));
    const server = await serveAs(user, { env: { HOME: home, ...KEYS } });
    const directory = await makeFolder(user);
    const led = LED_TO_MODEL[id];
    const env = Object.fromEntries(Object.entries(led.env(model.url)).filter(([key]) => !(key in KEYS)));
    const spec = { agent: id, model: led.model, env, directory, permissionMode: "bypass" as const };
    const ended = await end(server, id, spec, script({ shell: SPY }, { say: "Looked." }));
    expect(ended, server.stderr()).toMatchObject({ status: "completed" });
    expect(readFound(directory).filter((found) => found !== canary(name))).toEqual([]);
  });

  it("claude works with a login that has no refresh token", async ({ skip }) => {
    const { path, reason } = requireAgent("claude");
    if (path === undefined) return skip(reason);
    const [user] = SERVER_USERS as [ServerUser];
    const model = await createScriptedModel();
    models.push(model);
    const home = await makeFolder(user);
    writeLogins(home, logins(Date.now() + 3_600_000));
    const server = await serveAs(user, { env: { HOME: home } });
    const directory = await makeFolder(user);
    const spec = {
      agent: "claude",
      env: { ANTHROPIC_BASE_URL: model.url },
      directory,
      permissionMode: "bypass" as const,
    };
    const ended = await end(server, "s", spec, script({ shell: SPY }, { say: "Looked." }));
    expect(ended, server.stderr()).toMatchObject({ status: "completed" });
    expect(readFound(directory)).toEqual([canary("claude-access")]);
  });

  it("codex reads a login whose refresh token is worthless", async ({ skip }) => {
    const { path, reason } = requireAgent("codex");
    if (path === undefined) return skip(reason);
    const [user] = SERVER_USERS as [ServerUser];
    const home = await makeFolder(user);
    const codex = harnesses.find(({ id }) => id === "codex");
    const credential = codex?.credentials?.find((known) => "file" in known);
    if (credential === undefined || !("file" in credential)) throw new Error("codex names no login file");
    const content = JSON.stringify(logins(Date.now() + 3_600_000)[credential.file]);
    const lent = credential.lend(content, { agent: "codex" });
    if (lent === undefined || !("content" in lent)) throw new Error("nothing was lent");
    expect(lent.content).not.toContain(canary("codex-refresh"));
    mkdirSync(join(home, ".codex"));
    writeFileSync(join(home, credential.file), lent.content);
    const env = { PATH: process.env["PATH"] ?? "", HOME: home, CODEX_HOME: join(home, ".codex") };
    const said = execFileSync("/bin/sh", ["-c", `"${path}" login status 2>&1`], { env, encoding: "utf8" });
    expect(said).toContain("Logged in using ChatGPT");
  });
});

/** A server whose user has a home with these logins, and spies in the place of every CLI. */
async function serveSpies(
  user: ServerUser,
  given: {
    env?: Record<string, string>;
    logins?: Record<string, unknown>;
    programs?: Record<string, string>;
  },
): Promise<{ server: TestServer; home: string; directory: string }> {
  const home = await makeFolder(user);
  const tools = await makeFolder(user);
  for (const { id } of harnesses) {
    writeFileSync(join(tools, id), given.programs?.[id] ?? `#!/bin/sh\n${SPY}\n`, { mode: 0o755 });
  }
  writeLogins(home, given.logins ?? {});
  if (user.ids !== undefined) execFileSync("chown", ["-R", `${user.ids.uid}:${user.ids.gid}`, home]);
  const none = Object.fromEntries(KEY_NAMES.map((name) => [name, ""]));
  const PATH = [tools, process.env["PATH"]].join(delimiter);
  const server = await serveAs(user, { env: { HOME: home, ...none, PATH, ...given.env } });
  return { server, home, directory: await makeFolder(user) };
}

function writeLogins(home: string, files: Record<string, unknown>): void {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(home, name)), { recursive: true });
    writeFileSync(join(home, name), JSON.stringify(content), { mode: 0o600 });
  }
}

type Spec = Parameters<TestServer["client"]["sessions"]["create"]>[1];

async function spy(server: TestServer, session: string, spec: Spec, directory: string): Promise<string[]> {
  const ended = await end(server, session, { ...spec, directory });
  try {
    return readFound(directory);
  } catch {
    throw new Error(`the spy did not run: ${JSON.stringify(ended)}`);
  }
}

/** One turn of a session, made where it is not there yet. */
async function end(
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

/** Until so many processes of the agent have ended: the next message starts another. */
async function untilEnded(server: TestServer, session: string, count: number): Promise<void> {
  let ended = 0;
  for await (const { type } of server.client.subscribe(session, { extensions: true })) {
    if (type === "process.ended" && ++ended === count) return;
  }
}

function readFound(directory: string): string[] {
  const text = readFileSync(join(directory, "found"), "utf8");
  rmSync(join(directory, "found"));
  return text.split("\n").filter(Boolean).sort();
}

async function everyEvent(server: TestServer, sessions: readonly string[]): Promise<string> {
  const texts: string[] = [];
  for (const session of sessions) texts.push(JSON.stringify(await server.client.getEvents(session)));
  return texts.join("\n") + server.stderr();
}

function canary(name: string): string {
  return `canary-${name}-5f21`;
}

/** A token in whose signature the canary stands, so that it can be found as it is. */
function token(expiresAt: number, name: string): string {
  const payload = Buffer.from(JSON.stringify({ exp: Math.floor(expiresAt / 1000) })).toString("base64url");
  return `eyJhbGciOiJub25lIn0.${payload}.${canary(name)}`;
}
