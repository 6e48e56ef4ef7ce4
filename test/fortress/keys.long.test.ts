import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { expect, it } from "vitest";
import { harnesses } from "../../src/harness/index.ts";
import type { TestServer } from "../support/server.ts";
import { describeFortress, makeFolder, serveAs, type ServerUser } from "./fortress-bench.ts";
import { KEYS, KEY_NAMES, SPY, type Spec, canary, end, logins, readFound, writeLogins } from "./key-spies.ts";

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

/**
 * Nothing else of the host may be inside: per agent and session, the canaries that it needs. The model gateway keeps the
 * keys of the agents that it leads outside.
 */
const WITH_KEYS: readonly [string, object, readonly string[]][] = [
  ["claude", {}, []],
  ["claude", { env: { CLAUDE_CODE_USE_BEDROCK: "1", AWS_REGION: "us-east-1" } }, []],
  ["claude", { env: { ANTHROPIC_AUTH_TOKEN: "canary-given" } }, []],
  ["codex", {}, []],
  ["opencode", {}, []],
  ["opencode", { model: "mistral/large" }, []],
  ["opencode", { model: "gpt-5" }, []],
  ["opencode", { model: "unheard-of/model" }, []],
  ["opencode", { model: "xai/grok", env: { OTHER: "canary-given" } }, ["canary-given"]],
  ["gemini", {}, []],
  ["grok", {}, []],
  ["amp", {}, [canary("AMP_API_KEY")]],
  // A session without the gateway: only the key that the agent needs.
  ["claude", { network: "full" }, [canary("ANTHROPIC_API_KEY")]],
  ["claude", { network: "full", env: { ANTHROPIC_AUTH_TOKEN: "canary-given" } }, ["canary-given"]],
  ["codex", { network: "full" }, [canary("OPENAI_API_KEY")]],
  ["opencode", { network: "full" }, [canary("ANTHROPIC_API_KEY")]],
  ["opencode", { network: "full", model: "mistral/large" }, [canary("MISTRAL_API_KEY")]],
  ["opencode", { network: "full", model: "gpt-5" }, [canary("OPENAI_API_KEY")]],
  ["gemini", { network: "full" }, [canary("GEMINI_API_KEY")]],
  ["grok", { network: "full" }, [canary("XAI_API_KEY")]],
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
  it("are handed over one by one: only those that the agent needs, never another provider's", async () => {
    const { server, directory } = await serveSpies(user, { env: KEYS });
    for (const [index, [agent, spec, expected]] of WITH_KEYS.entries()) {
      const found = await spy(server, `s${index}`, { agent, ...spec }, directory);
      expect(found, `${agent} ${JSON.stringify(spec)}`).toEqual([...expected].sort());
    }
  });

  it("are logins without refresh tokens, and without other providers' logins", async () => {
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

  it("are refused with an explanation when they have expired, or need a refresh", async () => {
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

/** A server whose user has a home with these logins, and spies instead of every CLI. */
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

async function spy(server: TestServer, session: string, spec: Spec, directory: string): Promise<string[]> {
  const ended = await end(server, session, { ...spec, directory });
  try {
    return readFound(directory);
  } catch {
    throw new Error(`the spy did not run: ${JSON.stringify(ended)}`);
  }
}

/** Until so many processes of the agent have ended: the next message starts another. */
async function untilEnded(server: TestServer, session: string, count: number): Promise<void> {
  let ended = 0;
  for await (const { type } of server.client.subscribe(session, { extensions: true })) {
    if (type === "process.ended" && ++ended === count) return;
  }
}

async function everyEvent(server: TestServer, sessions: readonly string[]): Promise<string> {
  const texts: string[] = [];
  for (const session of sessions) texts.push(JSON.stringify(await server.client.getEvents(session)));
  return texts.join("\n") + server.stderr();
}

function inside(expiresAt: number, name: string): string {
  return JSON.stringify({
    claudeAiOauth: { accessToken: canary(name), refreshToken: canary("rotated-inside"), expiresAt },
  });
}
