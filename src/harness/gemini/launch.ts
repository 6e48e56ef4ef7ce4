import { join } from "node:path";
import type { Launch, SessionSpec } from "../../contract/index.ts";
import { requireCli } from "../launch/cli.ts";
import { mcpHosts } from "../launch/hosts.ts";
import type { LaunchContext } from "../port.ts";
import { skillFiles } from "../launch/skills.ts";
import { authOf, modelHosts, usesVertex } from "./provider.ts";
import { PRELUDE, preludeFile } from "./prelude.ts";
import { toSettings } from "./config.ts";

export const SKILLS_FOLDER = ".gemini/skills";

export const INSTALL = "npm install -g @google/gemini-cli";

const SYSTEM_PROMPT = ".gemini/system.md";

/** `gemini --acp`, run by our own Node: the CLI's launcher would start a child that outlives it. */
export function launch(spec: SessionSpec, context: LaunchContext): Launch {
  const cli = requireCli("gemini", { title: "Gemini CLI", install: INSTALL, context });
  const { resume = "", home } = context;
  const env = { ...spec.env, ...context.env };
  return {
    argv: [...programOf(cli.path, home), ...argumentsOf(spec)],
    env: {
      ...env,
      HOME: home,
      GEMINI_CLI_NO_RELAUNCH: "true",
      GEMINI_CLI_TRUST_WORKSPACE: "true",
      ...(usesVertex(env) ? { GOOGLE_GENAI_USE_VERTEXAI: "true" } : {}),
      ...(resume === "" ? {} : { SLUICE_RESUME: resume }),
      ...(spec.systemPrompt === undefined ? {} : { GEMINI_SYSTEM_MD: join(home, SYSTEM_PROMPT) }),
    },
    needs: [...cli.needs, process.execPath],
    hosts: [...modelHosts(env), ...mcpHosts(spec)],
    files: [
      {
        path: ".gemini/settings.json",
        content: JSON.stringify(toSettings(spec, authOf(env)), undefined, 2),
        mode: 0o600,
      },
      preludeFile(),
      ...(spec.systemPrompt === undefined ? [] : [{ path: SYSTEM_PROMPT, content: spec.systemPrompt }]),
      ...(spec.instructions === undefined ? [] : [{ path: ".gemini/GEMINI.md", content: spec.instructions }]),
      ...skillFiles(SKILLS_FOLDER, spec),
    ],
  };
}

/** A build that is no Node program runs without the prelude, and reports less. */
function programOf(path: string, home: string): string[] {
  return /\.[cm]?js$/.test(path) ? [process.execPath, "--import", join(home, PRELUDE), path] : [path];
}

function argumentsOf(spec: SessionSpec): string[] {
  const mode = spec.agentMode === "plan" ? "plan" : (APPROVAL[spec.permissionMode ?? "default"] ?? "default");
  return ["--acp", "--approval-mode", mode, ...(spec.model === undefined ? [] : ["-m", spec.model])];
}

const APPROVAL: Readonly<Record<string, string>> = { acceptEdits: "auto_edit", bypass: "yolo", plan: "plan" };
