import { dirname, join } from "node:path";
import { type Launch, type SessionSpec, SluiceError } from "../../contract/index.ts";
import { detectCli, requireCli } from "../launch/cli.ts";
import { mcpHosts } from "../launch/hosts.ts";
import type { Choices, Credential, Detected, LaunchContext } from "../port.ts";
import { findOwnProgram } from "../launch/own-program.ts";
import { hostsOf, lendLogin } from "./provider.ts";
import { toSettings } from "./config.ts";
import { skillFiles } from "../launch/skills.ts";

export const SKILLS_FOLDER = ".config/agents/skills";

const INSTALL = "npm install -g @ampcode/cli";
const GATE = "sluice-amp-gate";
const GATE_FOLDER = ".sluice/amp";
const CONFIG = ".config/amp";

/** Amp's mode picks both model and effort. An older CLI has other names for them. */
export const choices: Choices = {
  modes: ["default", "smart", "rush", "deep"],
  variants: ["low", "medium", "high", "ultra"],
};

export const credentials: readonly Credential[] = [
  { env: "AMP_API_KEY" },
  { file: ".local/share/amp/secrets.json", lend: lendLogin },
];

/** Starts Amp behind the gate, which carries Amp's permission requests and our interrupts. */
export function launch(spec: SessionSpec, context: LaunchContext): Launch {
  const { resume, home } = context;
  if (context.fork)
    throw new SluiceError("capability_missing", "Amp cannot fork a thread; start a new session instead.");
  const cli = requireCli("amp", { title: "Amp", install: INSTALL, context });
  const gate = join(dirname(findOwnProgram().path), "amp-gate.js");
  const folder = join(home, GATE_FOLDER);
  return {
    argv: [
      process.execPath,
      gate,
      "run",
      folder,
      cli.path,
      ...(resume === undefined ? [] : ["threads", "continue", resume]),
      "--execute",
      "--stream-json",
      "--stream-json-input",
      "--stream-json-thinking",
      // An archived thread cannot be continued.
      "--no-archive-after-execute",
      ...modeOf(spec),
    ],
    env: { ...spec.env, ...context.env, HOME: home, AMP_SKIP_UPDATE_CHECK: "1" },
    needs: [process.execPath, gate, ...cli.needs],
    hosts: [...hostsOf(spec.env?.["AMP_URL"] ?? context.env?.["AMP_URL"]), ...mcpHosts(spec)],
    files: filesOf(spec, folder, gate),
  };
}

export function detect(options: { withVersion?: boolean } = {}): Promise<Detected> {
  return detectCli("amp", { install: INSTALL, ...options });
}

/** Amp chooses the model: it has no flag for a session's `model`. */
function modeOf({ agentMode, variant }: SessionSpec): string[] {
  const mode = variant ?? (agentMode === "default" ? undefined : agentMode);
  return mode === undefined ? [] : ["--mode", mode];
}

function filesOf(spec: SessionSpec, folder: string, gate: string): NonNullable<Launch["files"]> {
  const words = [spec.systemPrompt, spec.instructions].filter((text) => text !== undefined).join("\n\n");
  return [
    // The settings hold headers and environments of MCP servers.
    {
      path: `${CONFIG}/settings.json`,
      content: JSON.stringify(toSettings(spec, { gate: GATE })),
      mode: 0o600,
    },
    { path: `${GATE_FOLDER}/${GATE}`, content: gateScript(folder, gate), mode: 0o700 },
    ...(words === "" ? [] : [{ path: `${CONFIG}/AGENTS.md`, content: words, mode: 0o600 }]),
    ...skillFiles(SKILLS_FOLDER, spec),
  ];
}

/** The program of Amp's permission rule, which gets no arguments. */
function gateScript(folder: string, gate: string): string {
  const words = [process.execPath, gate, "ask", folder].map((word) => `'${word.replaceAll("'", "'\\''")}'`);
  return `#!/bin/sh\nexec ${words.join(" ")}\n`;
}
