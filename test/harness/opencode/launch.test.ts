import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { tmpdir } from "node:os";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Launch, SessionSpec } from "../../../src/contract/index.ts";
import { coverageOf } from "../../../src/harness/coverage.ts";
import { opencode } from "../../../src/harness/opencode/harness.ts";
import type { Harness, LaunchContext } from "../../../src/harness/port.ts";

/** The folder of a program under the CLI's name. */
const folder = mkdtempSync(join(tmpdir(), "sluice-opencode-"));
const path = process.env["PATH"];

beforeAll(() => {
  writeFileSync(join(folder, "opencode"), "#!/bin/sh\n", { mode: 0o755 });
  process.env["PATH"] = `${folder}${delimiter}${path}`;
});

afterAll(() => {
  process.env["PATH"] = path;
  rmSync(folder, { recursive: true, force: true });
});

describe("how OpenCode is started", () => {
  it("by the bridge, with a HOME and a configuration of its own", () => {
    const launch = launchOf({});
    expect(launch.argv.slice(-2)).toEqual(["--", join(folder, "opencode")]);
    expect(launch.argv[1]).toMatch(/dist\/agents\/opencode-gateway\.js$/);
    expect(launch.env).toMatchObject({
      HOME: "/home/user",
      OPENCODE_CONFIG: "/home/user/.sluice/opencode.json",
      OPENCODE_DISABLE_AUTOUPDATE: "1",
    });
    expect(launch.needs).toEqual([process.execPath, launch.argv[1], join(folder, "opencode")]);
    expect(launch.files?.[0]).toMatchObject({ path: ".sluice/opencode.json", mode: 0o600 });
    expect(configOf(launch)).toMatchObject({ autoupdate: false, share: "disabled" });
  });

  it("says how it is installed where it is not", () => {
    process.env["PATH"] = "/nowhere";
    try {
      expect(() => launchOf({})).toThrow(/npm install -g opencode-ai/);
    } finally {
      process.env["PATH"] = `${folder}${delimiter}${path}`;
    }
  });

  it("again, or as another, by its own id", () => {
    expect(launchOf({}, { resume: "ses_1" }).argv).toContain("--resume=ses_1");
    expect(launchOf({}, { resume: "ses_1" }).argv).not.toContain("--fork");
    expect(launchOf({}, { resume: "ses_1", fork: true }).argv).toContain("--fork");
  });

  it.each<[NonNullable<SessionSpec["permissionMode"]>, object]>([
    ["default", { bash: "ask", edit: "ask", webfetch: "ask", websearch: "ask" }],
    ["acceptEdits", { bash: "ask", edit: "allow", webfetch: "ask", websearch: "ask" }],
    ["bypass", { "*": "allow", external_directory: "allow", doom_loop: "allow" }],
    ["plan", { bash: "ask", webfetch: "ask", websearch: "ask" }],
  ])("in mode %s", (permissionMode, permission) => {
    const config = configOf(launchOf({ permissionMode }));
    expect(config["permission"]).toEqual(permission);
    expect(config["default_agent"]).toBe(permissionMode === "plan" ? "plan" : undefined);
  });

  it("with the model of any server that speaks as OpenAI does", () => {
    const launch = launchOf({ model: "tiny", env: { OPENAI_BASE_URL: "http://127.0.0.1:4100/v1" } });
    expect(configOf(launch)).toMatchObject({
      model: "openai-compatible/tiny",
      small_model: "openai-compatible/tiny",
      enabled_providers: ["openai-compatible"],
      provider: {
        "openai-compatible": {
          npm: "@ai-sdk/openai-compatible",
          options: { baseURL: "http://127.0.0.1:4100/v1", apiKey: "none" },
        },
      },
    });
    expect(launch.hosts).toEqual(["127.0.0.1:4100"]);
  });

  it("with Anthropic's models from elsewhere", () => {
    const launch = launchOf(
      { model: "claude-opus-4-5", env: { ANTHROPIC_BASE_URL: "http://127.0.0.1:4100" } },
      { env: { ANTHROPIC_API_KEY: "sk-1" } },
    );
    expect(configOf(launch)).toMatchObject({
      model: "anthropic/claude-opus-4-5",
      provider: { anthropic: { options: { baseURL: "http://127.0.0.1:4100/v1", apiKey: "sk-1" } } },
    });
  });

  it("with the key of its model's provider in a file, and nowhere another", () => {
    const launch = launchOf(
      { model: "claude-opus-4-5" },
      { env: { ANTHROPIC_API_KEY: "sk-1", OPENCODE_API_KEY: "sk-2" } },
    );
    expect(configOf(launch)["provider"]).toEqual({ anthropic: { options: { apiKey: "sk-1" } } });
    expect(JSON.stringify([launch.argv, launch.env])).not.toContain("sk-");
    expect(launch.hosts).toEqual(["api.anthropic.com"]);
  });

  it("with its servers, its skills and its words", () => {
    const launch = launchOf({
      mcp: {
        docs: { command: "node", args: ["docs.mjs"], env: { TOKEN: "t" } },
        web: { type: "http", url: "https://mcp.example.com/mcp", headers: { authorization: "Bearer t" } },
      },
      skills: [{ name: "greet", description: "Says: hello", content: "Say hello." }],
      systemPrompt: "You are terse.",
      instructions: "Speak Latin.",
      variant: "high",
    });
    expect(configOf(launch)).toMatchObject({
      mcp: {
        docs: { type: "local", command: ["node", "docs.mjs"], environment: { TOKEN: "t" } },
        web: { type: "remote", url: "https://mcp.example.com/mcp", headers: { authorization: "Bearer t" } },
      },
      agent: { build: { prompt: "You are terse.", variant: "high" } },
      instructions: ["/home/user/.sluice/instructions.md"],
    });
    expect(launch.hosts).toContain("mcp.example.com:443");
    expect(launch.files?.slice(1, 3)).toEqual([
      { path: ".sluice/instructions.md", content: "Speak Latin." },
      {
        path: ".config/opencode/skills/greet/SKILL.md",
        content: '---\nname: greet\ndescription: "Says: hello"\n---\n\nSay hello.\n',
      },
    ]);
  });
});

describe("OpenCode's coverage", () => {
  it("is all that the CLI can do: the application gives it no tools but by MCP", () => {
    const missing = Object.entries(coverageOf(opencode as Harness)).flatMap(([name, has]) =>
      has ? [] : [name],
    );
    expect(missing).toEqual([]);
  });
});

function launchOf(spec: Partial<SessionSpec>, context: Partial<LaunchContext> = {}): Launch {
  return opencode.launch(
    { agent: "opencode", ...spec },
    { workspace: "/workspace", home: "/home/user", ...context },
  );
}

function configOf(launch: Launch): Record<string, unknown> {
  return JSON.parse(launch.files?.[0]?.content ?? "{}") as Record<string, unknown>;
}
