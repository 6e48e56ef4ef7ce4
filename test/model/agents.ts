import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { AgentId } from "../support/agents.ts";

/** The command of each real agent for one prompt, with a home of its own and the scripted model. */
export interface AgentRun {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

export function prepareAgent(id: AgentId, { home, url }: { home: string; url: string }): AgentRun {
  const { files = {}, ...run } = AGENTS[id](url, home);
  for (const [name, content] of Object.entries(files)) {
    const path = join(home, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
  }
  return run;
}

type Prepare = (url: string, home: string) => AgentRun & { files?: Record<string, string> };

const AGENTS: Record<AgentId, Prepare> = {
  claude: (url) => ({
    args: ["-p", "--output-format", "stream-json", "--verbose", "--model", "claude-sonnet-4-5"].concat(
      "--dangerously-skip-permissions",
    ),
    env: {
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_API_KEY: "any",
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      DISABLE_AUTOUPDATER: "1",
      // Otherwise root may not use the flag.
      IS_SANDBOX: "1",
    },
  }),
  codex: (url, home) => ({
    args: ["exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"].concat([
      "-c",
      "features.plugins=false",
      "-c",
      "features.apps=false",
    ]),
    env: { CODEX_HOME: join(home, ".codex") },
    files: {
      ".codex/config.toml": [
        'model = "gpt-5.5"',
        'model_provider = "scripted"',
        "check_for_update_on_startup = false",
        "[model_providers.scripted]",
        'name = "scripted"',
        `base_url = "${url}/v1"`,
        'wire_api = "responses"',
        "[analytics]",
        "enabled = false",
        "[otel]",
        'exporter = "none"',
        'metrics_exporter = "none"',
        "[feedback]",
        "enabled = false",
      ].join("\n"),
    },
  }),
  opencode: (url, home) => ({
    args: ["run", "--format", "json", "--thinking"],
    env: {
      OPENCODE_CONFIG: join(home, "opencode.json"),
      OPENCODE_DISABLE_AUTOUPDATE: "1",
      OPENCODE_DISABLE_MODELS_FETCH: "1",
      OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
      OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
    },
    files: {
      "opencode.json": JSON.stringify({
        autoupdate: false,
        share: "disabled",
        model: "scripted/scripted",
        small_model: "scripted/scripted",
        enabled_providers: ["scripted"],
        provider: {
          scripted: {
            npm: "@ai-sdk/openai-compatible",
            name: "Scripted",
            options: { baseURL: `${url}/v1`, apiKey: "none" },
            models: {
              scripted: {
                name: "Scripted",
                reasoning: true,
                tool_call: true,
                limit: { context: 200_000, output: 8000 },
              },
            },
          },
        },
      }),
    },
  }),
  gemini: (url) => ({
    args: ["--output-format", "stream-json", "-m", "gemini-2.5-pro", "--approval-mode", "yolo", "-p"],
    env: {
      GEMINI_API_KEY: "any",
      GOOGLE_GEMINI_BASE_URL: url,
      GEMINI_CLI_TRUST_WORKSPACE: "true",
      GEMINI_CLI_NO_RELAUNCH: "true",
    },
    files: {
      ".gemini/settings.json": JSON.stringify({
        general: { enableAutoUpdate: false, enableAutoUpdateNotification: false },
        privacy: { usageStatisticsEnabled: false },
        telemetry: { enabled: false },
        security: { auth: { selectedType: "gemini-api-key" } },
      }),
    },
  }),
  grok: (url) => ({
    args: ["-m", "scripted", "--output-format", "streaming-json", "--always-approve", "-p"],
    env: {
      GROK_DISABLE_AUTOUPDATER: "1",
      GROK_TELEMETRY_ENABLED: "0",
      GROK_CLI_CHAT_PROXY_BASE_URL: `${url}/v1`,
      GROK_XAI_API_BASE_URL: `${url}/v1`,
    },
    files: {
      ".grok/config.toml": [
        "[cli]",
        "auto_update = false",
        "[models]",
        'default = "scripted"',
        "[model.scripted]",
        'model = "scripted"',
        `base_url = "${url}/v1"`,
        'name = "Scripted"',
        'api_key = "none"',
        'api_backend = "chat_completions"',
        "context_window = 200000",
        "[features]",
        "telemetry = false",
        "[marketplace]",
        "default_skills_installs_purged = true",
      ].join("\n"),
    },
  }),
};
