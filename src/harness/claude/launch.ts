import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Launch, SessionSpec } from "../../contract/index.ts";
import { type Cli, detectCli, requireCli } from "../launch/cli.ts";
import { mcpHosts } from "../launch/hosts.ts";
import type { Detected, LaunchContext } from "../port.ts";
import { packageRoot } from "../launch/npm-package.ts";
import { toModelHosts } from "./provider.ts";
import { FOLDER, toKeyFiles, toMcpFiles, toPermissions, toPromptFiles, toSettingsFiles } from "./config.ts";
import { skillFiles } from "../launch/skills.ts";

export const SKILLS_FOLDER = ".claude/skills";

const INSTALL = "npm install -g @anthropic-ai/claude-code";

/** Starts Claude Code headless, with stream-json both ways and permission requests to its host. */
export function launch(spec: SessionSpec, context: LaunchContext): Launch {
  const { path: program, needs } = findProgram(context);
  const given: Readonly<Record<string, string>> = { ...context.env, ...spec.env };
  const key = toKeyFiles(given, context.home);
  const files = [
    ...key.files,
    ...toSettingsFiles({ ...key.settings, ...toPermissions(spec.tools) }),
    ...toPromptFiles(spec),
    ...toMcpFiles(spec),
    ...skillFiles(SKILLS_FOLDER, spec),
  ];
  const placed = (name: string): string[] => {
    const path = `${FOLDER}/${name}`;
    return files.some((file) => file.path === path) ? [join(context.home, path)] : [];
  };
  const argv = [
    program,
    "-p",
    "--output-format=stream-json",
    "--input-format=stream-json",
    "--verbose",
    "--include-partial-messages",
    "--permission-prompt-tool=stdio",
    ...toModeArguments(spec),
    ...(spec.model === undefined ? [] : [`--model=${spec.model}`]),
    ...(spec.variant === undefined ? [] : [`--effort=${spec.variant}`]),
    ...placed("settings.json").map((path) => `--settings=${path}`),
    ...placed("mcp.json").map((path) => `--mcp-config=${path}`),
    ...placed("system-prompt.md").map((path) => `--system-prompt-file=${path}`),
    ...placed("instructions.md").map((path) => `--append-system-prompt-file=${path}`),
    ...(context.resume === undefined ? [] : [`--resume=${context.resume}`]),
    ...(context.resume !== undefined && context.fork === true ? ["--fork-session"] : []),
  ];
  return {
    argv,
    env: { ...QUIET, ...toRetries(spec), ...key.env, HOME: context.home },
    needs,
    hosts: [...toModelHosts(given), ...mcpHosts(spec)],
    files,
  };
}

export function detect(options?: { withVersion?: boolean }): Promise<Detected> {
  return detectCli("claude", { install: INSTALL, ...options });
}

/** No updates, no telemetry. As root the CLI skips permissions only in a sandbox. */
const QUIET = {
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  DISABLE_AUTOUPDATER: "1",
  DISABLE_TELEMETRY: "1",
  DISABLE_ERROR_REPORTING: "1",
  IS_SANDBOX: "1",
};

function findProgram(context: LaunchContext): Cli {
  const cli = requireCli("claude", { title: "Claude Code", install: INSTALL, context });
  const root = packageRoot(cli.path);
  if (root === undefined) return cli;
  // Installed without install scripts, the launcher is a Node program that starts the real one.
  const native = join(dirname(root), `claude-code-${process.platform}-${process.arch}`, "claude");
  return /\.[cm]?js$/.test(cli.path) && existsSync(native) ? { path: native, needs: [native] } : cli;
}

function toModeArguments({ permissionMode = "default", agentMode }: SessionSpec): string[] {
  if (permissionMode === "bypass") return ["--dangerously-skip-permissions"];
  if (permissionMode === "plan" || agentMode === "plan") return ["--permission-mode=plan"];
  return permissionMode === "acceptEdits" ? ["--permission-mode=acceptEdits"] : [];
}

function toRetries({ retries }: SessionSpec): Record<string, string> {
  return retries === undefined ? {} : { CLAUDE_CODE_MAX_RETRIES: String(retries.tries - 1) };
}
