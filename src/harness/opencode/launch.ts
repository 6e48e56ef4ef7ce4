import { dirname, join } from "node:path";
import type { Launch, SessionSpec } from "../../contract/index.ts";
import { detectCli, requireCli } from "../cli.ts";
import { mcpHosts } from "../hosts.ts";
import type { Credential, Detected, LaunchContext } from "../port.ts";
import { findExecutable } from "../scripted/executable.ts";
import { toConfig } from "./config.ts";
import { lendLogin, loginProvider } from "./login.ts";
import { KEYS, keysFor, providerHosts, providerOf } from "./providers.ts";
import { skillFiles } from "../skills.ts";

export const SKILLS_FOLDER = ".config/opencode/skills";

const INSTALL = "npm install -g opencode-ai";
const CONFIG = ".sluice/opencode.json";
const INSTRUCTIONS = ".sluice/instructions.md";

export const credentials: readonly Credential[] = [
  ...Object.keys(KEYS).map((env) => ({ env })),
  { file: ".local/share/opencode/auth.json", lend: lendLogin },
];

/** The keys of the model's provider, and the login file, of which only that provider's part is used. */
export function credentialsFor(spec: SessionSpec): readonly Credential[] {
  const names = new Set(keysFor(spec));
  return credentials.filter((known) => !("env" in known) || names.has(known.env));
}

/** The bridge, which runs `opencode serve` and speaks with it; all that the session asks for is in files. */
export function launch(spec: SessionSpec, context: LaunchContext): Launch {
  const cli = requireCli("opencode", { title: "OpenCode", install: INSTALL, context });
  const bridge = findBridge();
  const { home, resume, fork, env: keys = {} } = context;
  const instructions = spec.instructions === undefined ? undefined : join(home, INSTRUCTIONS);
  const provider = providerOf(spec, { keys, login: loginProvider(context.login) });
  const config = toConfig(spec, { keys, provider, ...(instructions === undefined ? {} : { instructions }) });
  const argv = [process.execPath, bridge];
  if (resume !== undefined) argv.push(`--resume=${resume}`);
  if (resume !== undefined && fork === true) argv.push("--fork");
  if (spec.title !== undefined) argv.push(`--title=${spec.title}`);
  return {
    argv: [...argv, "--", cli.path],
    env: { ...spec.env, ...QUIET, HOME: home, OPENCODE_CONFIG: join(home, CONFIG) },
    needs: [process.execPath, bridge, ...cli.needs],
    hosts: [...providerHosts(provider, spec), ...mcpHosts(spec)],
    files: [
      { path: CONFIG, content: JSON.stringify(config, null, 2), mode: 0o600 },
      ...(spec.instructions === undefined ? [] : [{ path: INSTRUCTIONS, content: spec.instructions }]),
      ...skillFiles(SKILLS_FOLDER, spec),
      ...INSTALLED,
    ],
  };
}

export function detect(options: { withVersion?: boolean } = {}): Promise<Detected> {
  return detectCli("opencode", { install: INSTALL, ...options });
}

/** The dependencies of plugins, which are none: told that they are installed, it downloads nothing. */
const INSTALLED = [
  { path: ".config/opencode/node_modules/.keep", content: "" },
  {
    path: ".config/opencode/package-lock.json",
    content: JSON.stringify({ packages: { "": { dependencies: { "@opencode-ai/plugin": "*" } } } }),
  },
];

const QUIET = {
  OPENCODE_DISABLE_AUTOUPDATE: "1",
  OPENCODE_DISABLE_MODELS_FETCH: "1",
  OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
  // They are downloaded when it starts.
  OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
} as const;

/** It is built beside the scripted agent. */
function findBridge(): string {
  return join(dirname(findExecutable().path), "opencode-bridge.js");
}
