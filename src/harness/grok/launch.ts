import type { Launch, SessionSpec } from "../../contract/index.ts";
import { requireCli } from "../launch/cli.ts";
import { mcpHosts } from "../launch/hosts.ts";
import type { LaunchContext } from "../port.ts";
import { skillFiles } from "../launch/skills.ts";
import { modelHosts } from "./provider.ts";
import { toConfig } from "./config.ts";

export const SKILLS_FOLDER = ".grok/skills";

export const INSTALL = "npm install -g @xai-official/grok";

/** `grok agent stdio`, without the leader process that would outlive it. */
export function launch(spec: SessionSpec, context: LaunchContext): Launch {
  const cli = requireCli("grok", { title: "Grok Build", install: INSTALL, context });
  const given = { ...spec.env, ...context.env };
  const base = given["XAI_BASE_URL"] ?? given["OPENAI_BASE_URL"];
  const key = given["XAI_API_KEY"] ?? given["GROK_API_KEY"];
  return {
    argv: [cli.path, ...argumentsOf(spec)],
    env: {
      ...given,
      ...(key === undefined ? {} : { XAI_API_KEY: key }),
      HOME: context.home,
      ...QUIET,
      ...(base === undefined ? {} : { GROK_CLI_CHAT_PROXY_BASE_URL: base, GROK_XAI_API_BASE_URL: base }),
      // Disables a second layer of retries, so that the session's own budget counts.
      ...(spec.retries === undefined ? {} : { GROK_TURN_TRANSIENT_RETRY: "0" }),
    },
    needs: cli.needs,
    hosts: [...modelHosts(base, key), ...mcpHosts(spec)],
    files: [
      {
        path: ".grok/config.toml",
        content: toConfig(spec, { base, hasKey: key !== undefined }),
        mode: 0o600,
      },
      ...rules(spec),
      ...skillFiles(SKILLS_FOLDER, spec),
    ],
  };
}

const QUIET = {
  GROK_DISABLE_AUTOUPDATER: "1",
  GROK_TELEMETRY_ENABLED: "0",
  GROK_FEEDBACK_ENABLED: "0",
  // No turns without a prompt, and no decorative model requests.
  GROK_AUTO_WAKE: "0",
  GROK_TURN_SUMMARY: "0",
  GROK_SESSION_RECAP: "0",
  GROK_TITLE_REFRESH: "0",
};

function argumentsOf({ model, variant, permissionMode }: SessionSpec): string[] {
  return [
    "agent",
    "--no-leader",
    ...(model === undefined ? [] : ["--model", model]),
    ...(variant === undefined ? [] : ["--reasoning-effort", variant]),
    ...(permissionMode === "bypass" ? ["--always-approve"] : []),
    "stdio",
  ];
}

/** Rules for every project. This mode cannot replace the system prompt. */
function rules({ systemPrompt, instructions }: SessionSpec): { path: string; content: string }[] {
  const content = [systemPrompt, instructions].filter((text) => text !== undefined).join("\n\n");
  return content === "" ? [] : [{ path: ".grok/AGENTS.md", content }];
}
