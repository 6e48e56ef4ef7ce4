import { dirname, join } from "node:path";
import type { Launch, SessionSpec } from "../../contract/index.ts";
import { detectCli, requireCli } from "../launch/cli.ts";
import { mcpHosts } from "../launch/hosts.ts";
import type { Credential, Detected, LaunchContext } from "../port.ts";
import { findOwnProgram } from "../launch/own-program.ts";
import { toConfig } from "./config.ts";
import { lendLogin, loginProvider, KEYS, keysFor, providerHosts, providerOf } from "./provider.ts";
import { skillFiles } from "../launch/skills.ts";

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

/** Starts the gateway, which runs `opencode serve`. The session's settings are in files. */
export function launch(spec: SessionSpec, context: LaunchContext): Launch {
  const cli = requireCli("opencode", { title: "OpenCode", install: INSTALL, context });
  const gateway = findGateway();
  const { home, resume, fork, env: keys = {} } = context;
  const instructions = spec.instructions === undefined ? undefined : join(home, INSTRUCTIONS);
  const provider = providerOf(spec, { keys, login: loginProvider(context.login) });
  const config = toConfig(spec, { keys, provider, ...(instructions === undefined ? {} : { instructions }) });
  const argv = [process.execPath, gateway];
  if (resume !== undefined) argv.push(`--resume=${resume}`);
  if (resume !== undefined && fork === true) argv.push("--fork");
  if (spec.title !== undefined) argv.push(`--title=${spec.title}`);
  return {
    argv: [...argv, "--", cli.path],
    env: { ...spec.env, ...QUIET, HOME: home, OPENCODE_CONFIG: join(home, CONFIG) },
    needs: [process.execPath, gateway, ...cli.needs],
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

/** Marks the dependencies of plugins as installed, so that OpenCode downloads nothing. */
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
  // OpenCode downloads them at its start.
  OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
} as const;

/** The program of the gateway. */
function findGateway(): string {
  return join(dirname(findOwnProgram().path), "opencode-gateway.js");
}
