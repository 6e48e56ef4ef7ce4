import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { harnesses } from "../../src/harness/index.ts";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import { type AgentId, requireAgent } from "../support/agents.ts";
import { script } from "../support/engine.ts";
import { LED_TO_MODEL } from "../support/model.ts";
import { makeFolder, SERVER_USERS, serveAs, type ServerUser } from "./fortress-bench.ts";
import { KEYS, SPY, canary, end, logins, readFound, writeLogins } from "./key-spies.ts";

/** The real CLIs with the scripted model: their child processes find only the given keys. */
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

  it.for(LED)("%s works, and its child processes find only its %s", async ([id, name], { skip }) => {
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
