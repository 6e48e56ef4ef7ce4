import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, request, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import { runCli } from "./cli.ts";
import { listen, portOf } from "./lab.ts";

const KEY = `azure-canary-${randomBytes(16).toString("hex")}`;

let model: ScriptedModel;
let azure: Server;
let data: string;
/** The requests that passed the check. */
let passed: string[] = [];

beforeAll(async () => {
  model = await createScriptedModel();
  data = mkdtempSync(join(tmpdir(), "gateway-azure-"));
  // A resource of Azure: its own header with the key, its own paths, and no other credential.
  azure = await listen(
    createServer((incoming, outgoing) => {
      const { pathname, searchParams } = new URL(incoming.url ?? "", "http://azure");
      const isFoundry = pathname.startsWith("/anthropic/");
      const given = incoming.headers[isFoundry ? "x-api-key" : "api-key"];
      const isRight = given === KEY && incoming.headers.authorization === undefined;
      const isVersioned = isFoundry || searchParams.get("api-version") === "2026-01-01";
      if (!isRight || !isVersioned) return void outgoing.writeHead(401).end('{"error":{"code":"401"}}');
      passed.push(`${incoming.method} ${pathname}`);
      const path = pathname.replace("/anthropic/", "/").replace("/openai/", "/v1/");
      const forwarded = request(
        `${model.url}${path}`,
        { method: incoming.method, headers: incoming.headers },
        (answer) => {
          outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
          answer.pipe(outgoing);
        },
      );
      incoming.pipe(forwarded);
    }),
  );
});
afterAll(async () => {
  azure.closeAllConnections();
  azure.close();
  await model.close();
  rmSync(data, { recursive: true, force: true });
});

const url = (): string => `http://127.0.0.1:${portOf(azure)}`;
const CASES = [
  {
    agent: "claude",
    provider: "foundry",
    path: "POST /anthropic/v1/messages",
    variable: "ANTHROPIC_FOUNDRY_API_KEY",
    env: () => ({ CLAUDE_CODE_USE_FOUNDRY: "1", ANTHROPIC_FOUNDRY_BASE_URL: `${url()}/anthropic` }),
    model: "claude-opus-5-5",
  },
  {
    agent: "codex",
    provider: "azure",
    path: "POST /openai/responses",
    variable: "OPENAI_API_KEY",
    env: () => ({ OPENAI_BASE_URL: `${url()}/openai`, OPENAI_API_VERSION: "2026-01-01" }),
    model: "gpt-5.5",
  },
];

const OPTIONS = ["--sandbox", "bwrap", "--as", "universal", "--permission-mode", "bypass"];

describe.each(CASES)(
  "$agent with a model of Azure",
  ({ agent, provider, path, variable, env, model: name }) => {
    it("works with its key outside of the sandbox", { timeout: 240_000 }, async () => {
      passed = [];
      model.reset();
      const search = `env | grep -c "$(printf %s ${[...KEY].toReversed().join("")} | rev)"; echo KEYS-FOUND; true`;
      const script = [{ shell: search }, { say: "all done" }];
      const prompt = `#script ${JSON.stringify(script)}`;
      const variables = Object.entries(env()).flatMap(([key, value]) => ["--env", `${key}=${value}`]);
      const { code, events, stderr } = await runCli(
        ["run", ...OPTIONS, "--agent", agent, "--model", name, "--secret", variable, ...variables, prompt],
        { [variable]: KEY, XDG_DATA_HOME: data },
      );
      expect([code, stderr]).toEqual([0, expect.any(String)]);
      const text = JSON.stringify(events);
      expect(text).toContain("all done");
      expect(text).toMatch(/"output":"[^"]*\b0\\\\?n(?:[^"]*)KEYS-FOUND|0\\nKEYS-FOUND/);
      expect(text).not.toContain(KEY);
      expect(passed.length).toBeGreaterThanOrEqual(2);
      expect(passed).toContain(path);
      expect(events.find(({ type }) => type === "process.started")?.data).toMatchObject({
        credential: "outside",
        gateway: true,
      });
      const ended = events.filter(
        (event): event is Extract<SluiceEvent, { type: "model.ended" }> => event.type === "model.ended",
      );
      expect(ended.length).toBeGreaterThanOrEqual(2);
      for (const { data: told } of ended)
        expect(told).toMatchObject({ provider, status: 200, usage_source: "measured" });
    });
  },
);
