import { describe, expect, it } from "vitest";
import type { SessionSpec } from "../../../src/contract/index.ts";
import { codex } from "../../../src/harness/codex/harness.ts";
import { launch } from "../../../src/harness/codex/launch.ts";
import { type Opening, toOpening } from "../../../src/harness/codex/state.ts";
import { toToml } from "../../../src/harness/launch/files.ts";
import { recordedContext } from "../../../src/harness/recording.ts";
import { requireAgent } from "../../support/agents.ts";

const HOME = { workspace: "/home/user/workspace", home: "/home/user" };

describe("how Codex is started", () => {
  it("gets its configuration, its key and its skills as files of its home", ({ skip }) => {
    const { path, reason } = requireAgent("codex");
    if (path === undefined) return skip(reason);
    const spec: SessionSpec = {
      agent: "codex",
      model: "gpt-5.5",
      variant: "high",
      env: { OPENAI_BASE_URL: "http://127.0.0.1:4100/v1" },
      retries: { tries: 7, backoffMs: 1 },
      skills: [{ name: "greet", description: 'Says "hello"', content: "Bow." }],
      mcp: {
        local: { command: "node", args: ["a b"], env: { TOKEN: "t" } },
        far: { type: "http", url: "https://mcp.example/x", headers: { Authorization: "Bearer s" } },
      },
    };
    const {
      argv,
      env,
      files = [],
      hosts,
      needs = [],
    } = launch(spec, { ...HOME, env: { OPENAI_API_KEY: "sk-1" } });
    expect(argv).toEqual([expect.stringMatching(/codex$/), "app-server"]);
    expect(needs.some((folder) => argv[0]?.startsWith(folder))).toBe(true);
    expect(JSON.stringify([argv, env])).not.toContain("sk-1");
    expect(env["CODEX_HOME"]?.startsWith(env["TMPDIR"] ?? "")).toBe(false);
    expect(hosts).toEqual(["127.0.0.1:4100", "mcp.example:443"]);
    const file = (name: string) => files.find(({ path }) => path === name);
    expect(file(".codex/auth.json")).toMatchObject({ content: '{"OPENAI_API_KEY":"sk-1"}', mode: 0o600 });
    expect(file(".codex/skills/greet/SKILL.md")?.content).toBe(
      '---\nname: greet\ndescription: "Says \\"hello\\""\n---\n\nBow.\n',
    );
    const config = file(".codex/config.toml");
    expect(config?.mode).toBe(0o600);
    expect(config?.content).toContain('"model_reasoning_effort" = "high"');
    expect(config?.content).toContain('"base_url" = "http://127.0.0.1:4100/v1"');
    expect(config?.content).toContain('"requires_openai_auth" = true');
    expect(config?.content).toContain('"request_max_retries" = 0\n"stream_max_retries" = 6');
    expect(config?.content).toContain('["mcp_servers"."local"]\n"command" = "node"\n"args" = ["a b"]');
    expect(config?.content).toContain('["mcp_servers"."far"."http_headers"]\n"Authorization" = "Bearer s"');
  });

  it("takes a key that the session gives by its name, and asks a model of one's own for none", ({ skip }) => {
    const { path, reason } = requireAgent("codex");
    if (path === undefined) return skip(reason);
    const config = (env: Record<string, string>): string =>
      launch({ agent: "codex", env }, HOME).files?.find(({ path }) => path.endsWith("config.toml"))
        ?.content ?? "";
    expect(config({ OPENAI_API_KEY: "k" })).toContain('"env_key" = "OPENAI_API_KEY"');
    expect(config({ OPENAI_API_KEY: "k" })).not.toContain("requires_openai_auth");
    expect(config({ OPENAI_BASE_URL: "http://127.0.0.1:1/v1" })).not.toMatch(/requires_openai_auth|env_key/);
    expect(config({})).toContain('"requires_openai_auth" = true');
    expect(launch({ agent: "codex" }, HOME).hosts).toEqual(["chatgpt.com"]);
    expect(launch({ agent: "codex" }, { ...HOME, env: { OPENAI_API_KEY: "k" } }).hosts).toEqual([
      "api.openai.com",
    ]);
  });

  it("opens, resumes or forks the conversation as the session's mode says", () => {
    expect(opening({})).toMatchObject({
      method: "thread/start",
      params: { cwd: "/srv/w", approvalPolicy: "untrusted", sandbox: "workspace-write" },
    });
    expect(opening({ permissionMode: "bypass" }).params).toMatchObject({
      approvalPolicy: "never",
      sandbox: "danger-full-access",
    });
    expect(opening({ permissionMode: "plan" })).toMatchObject({
      plans: true,
      params: { sandbox: "read-only" },
    });
    expect(opening({ agentMode: "plan" })).toMatchObject({ plans: true });
    // Codex's own sandbox does not start inside of ours.
    expect(opening({}, { isolated: true }).params).toMatchObject({
      approvalPolicy: "untrusted",
      sandbox: "danger-full-access",
    });
    expect(opening({ systemPrompt: "You are.", instructions: "Do." }).params).toMatchObject({
      baseInstructions: "You are.",
      developerInstructions: "Do.",
    });
    expect(opening({}, { resume: "t1" })).toMatchObject({
      method: "thread/resume",
      params: { threadId: "t1" },
    });
    expect(opening({}, { resume: "t1", fork: true })).toMatchObject({ method: "thread/fork" });
  });

  it("writes TOML that keeps every character", () => {
    expect(
      toToml({ a: 'x"\\\n\u007f', b: { "c.d": [1, true, "é"], e: { f: "g" } }, skipped: undefined }),
    ).toBe('"a" = "x\\"\\\\\\n\\u007f"\n\n["b"]\n"c.d" = [1, true, "é"]\n\n["b"."e"]\n"f" = "g"\n');
  });

  it("lists its models and variants", () => {
    expect(codex.choices?.modes).toEqual(["default", "plan"]);
    expect(codex.choices?.variants).toContain("xhigh");
  });
});

function opening(spec: Partial<SessionSpec>, rest: object = {}): Opening {
  return toOpening({
    ...recordedContext("codex"),
    workspace: "/srv/w",
    spec: { agent: "codex", ...spec },
    ...rest,
  });
}
