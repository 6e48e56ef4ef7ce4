import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EventOf, SluiceEvent } from "../../src/contract/index.ts";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import { requireAgent } from "../support/agents.ts";
import { script } from "../support/engine.ts";
import { runCli } from "./cli.ts";
import { AWS, type FakeCloud, GOOGLE_KEY, openBedrock, openVertex } from "./clouds.ts";
import { portOf } from "./lab.ts";

const { reason } = requireAgent("claude");
const REGION = "eu-central-1";
const OPTIONS = ["run", "--as", "universal", "--permission-mode", "bypass", "--agent", "claude"];

describe.skipIf(reason !== undefined)("claude with a model of a cloud", { timeout: 240_000 }, () => {
  let model: ScriptedModel;
  let bedrock: FakeCloud;
  let vertex: FakeCloud & { readonly tokens: string[] };
  let data: string;
  beforeAll(async () => {
    model = await createScriptedModel();
    bedrock = await openBedrock(model, REGION);
    vertex = await openVertex(model);
    data = mkdtempSync(join(tmpdir(), "gateway-clouds-"));
  });
  afterAll(async () => {
    for (const { server } of [bedrock, vertex]) {
      server.closeAllConnections();
      server.close();
    }
    await model.close();
    rmSync(data, { recursive: true, force: true });
  });

  /** Runs a turn whose command looks for secrets in its environment and home. They are written backwards there. */
  async function run(
    settings: {
      sandbox: string;
      model: string;
      env: Record<string, string>;
      secrets: Record<string, string>;
      wanted?: readonly string[];
    },
    ...more: string[]
  ) {
    const { wanted = Object.values(settings.secrets) } = settings;
    const backwards = wanted.map((text) => `'${[...text].toReversed().join("")}'`).join(" ");
    const look = 'k=$(printf %s "$s" | rev); env | grep -cF "$k"; grep -rlF "$k" "$HOME" | wc -l';
    const search = `for s in ${backwards}; do ${look}; done | sort -u | tr '\\n' ' '; echo FOUND; env | grep -c sess_`;
    const prompt = script({ shell: search }, { say: "all done" });
    const folder = mkdtempSync(join(data, "work-"));
    const variables = Object.entries(settings.env).flatMap(([name, value]) => ["--env", `${name}=${value}`]);
    const secrets = Object.keys(settings.secrets).flatMap((name) => ["--secret", name]);
    const options = [
      "--sandbox",
      settings.sandbox,
      "--cwd",
      folder,
      "--model",
      settings.model,
      ...variables,
      ...secrets,
      ...more,
    ];
    return runCli([...OPTIONS, ...options, prompt], { ...settings.secrets, XDG_DATA_HOME: data });
  }

  function expectLed(events: readonly SluiceEvent[], provider: string, secrets: readonly string[]): void {
    expect(find(events, "process.started")[0]?.data).toMatchObject({ credential: "outside", gateway: true });
    expect(find(events, "turn.ended")[0]?.data).toMatchObject({ status: "completed" });
    const text = JSON.stringify(events);
    // The token is there, so the search would have found a secret, too.
    expect(text).toMatch(/"output":"0 FOUND\\n[1-9]/);
    expect(text).toContain("all done");
    for (const secret of secrets) expect(text).not.toContain(secret);
    const ends = find(events, "model.ended");
    expect(ends.length).toBeGreaterThanOrEqual(2);
    for (const { data: told } of ends)
      expect(told).toMatchObject({ provider, wire: provider, status: 200, usage_source: "measured" });
    expect(ends.every(({ data: told }) => (told.usage?.output_tokens ?? 0) > 0)).toBe(true);
  }

  it.each(["bwrap", "local"])("of Bedrock works in %s: requests are signed outside", async (sandbox) => {
    const url = `http://127.0.0.1:${portOf(bedrock.server)}`;
    const env = { CLAUDE_CODE_USE_BEDROCK: "1", AWS_REGION: REGION, ANTHROPIC_BEDROCK_BASE_URL: url };
    const before = bedrock.passed.length;
    const name = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0";
    const { code, events, stderr } = await run({ sandbox, model: name, env, secrets: AWS });
    expect([code, stderr, bedrock.refused]).toEqual([0, expect.any(String), []]);
    expectLed(events, "bedrock", Object.values(AWS));
    const passed = bedrock.passed.slice(before);
    expect(
      passed.filter((line) => line.endsWith("/invoke-with-response-stream")).length,
    ).toBeGreaterThanOrEqual(2);
    expect(find(events, "model.started")[0]?.data.model).toBe(name);
  });

  it("of Bedrock is not recorded, and says why", async () => {
    const url = `http://127.0.0.1:${portOf(bedrock.server)}`;
    const env = { CLAUDE_CODE_USE_BEDROCK: "1", AWS_REGION: REGION, ANTHROPIC_BEDROCK_BASE_URL: url };
    const settings = { sandbox: "bwrap", model: "m", env, secrets: AWS };
    const { code, events, stderr } = await run(settings, "--record", join(data, `${Date.now()}.jsonl`));
    expect(code).not.toBe(0);
    expect(JSON.stringify(events) + stderr).toContain("binary form");
  });

  it("of Vertex works: its token is made outside, once", async () => {
    const url = `http://127.0.0.1:${portOf(vertex.server)}`;
    const env = {
      CLAUDE_CODE_USE_VERTEX: "1",
      CLOUD_ML_REGION: "europe-west1",
      ANTHROPIC_VERTEX_PROJECT_ID: "project",
      ANTHROPIC_VERTEX_BASE_URL: url,
      GOOGLE_TOKEN_URL: `${url}/token`,
    };
    const before = vertex.tokens.length;
    const secrets = { GOOGLE_SERVICE_ACCOUNT_KEY: GOOGLE_KEY };
    const { private_key: key } = JSON.parse(GOOGLE_KEY) as { private_key: string };
    const wanted = key
      .split("\n")
      .filter((line) => line.length > 40)
      .slice(0, 3);
    const settings = { sandbox: "bwrap", model: "claude-sonnet-4-5", env, secrets, wanted };
    const { code, events, stderr } = await run(settings);
    expect([code, stderr, vertex.refused]).toEqual([0, expect.any(String), []]);
    expectLed(events, "vertex", [...vertex.tokens, ...wanted]);
    expect(vertex.tokens.length - before).toBe(1);
    expect(vertex.passed.at(-1)).toBe(
      "POST /projects/project/locations/europe-west1/publishers/anthropic/models/claude-sonnet-4-5:streamRawPredict",
    );
  });
});

function find<T extends SluiceEvent["type"]>(events: readonly SluiceEvent[], type: T): EventOf<T>[] {
  return events.filter((event): event is EventOf<T> => event.type === type);
}
