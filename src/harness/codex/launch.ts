import { join, dirname } from "node:path";
import type { Launch, SessionSpec } from "../../contract/index.ts";
import { mcpHosts } from "../launch/hosts.ts";
import type { LaunchContext, Detected } from "../port.ts";
import { KEYS, toConfig } from "./config.ts";
import { modelHosts } from "./provider.ts";
import { skillFiles } from "../launch/skills.ts";
import { existsSync, readdirSync } from "node:fs";
import { detectCli, requireCli } from "../launch/cli.ts";
import { packageRoot } from "../launch/npm-package.ts";

const FOLDER = ".codex";
export const SKILLS_FOLDER: string = `${FOLDER}/skills`;
/** Codex refuses a home inside the folder for temporary files. */
const TEMPORARY = ".cache/codex-tmp";

/** Starts the app-server. Its settings follow when the conversation is opened. */
export function launch(spec: SessionSpec, context: LaunchContext): Launch {
  const { argv, needs } = findProgram(context);
  const { home } = context;
  const key = KEYS.map((name) => context.env?.[name]).find((value) => value !== undefined);
  const auth = { path: `${FOLDER}/auth.json`, content: JSON.stringify({ OPENAI_API_KEY: key }), mode: 0o600 };
  return {
    argv: [...argv, "app-server"],
    env: {
      ...spec.env,
      HOME: home,
      CODEX_HOME: join(home, FOLDER),
      TMPDIR: join(home, TEMPORARY),
      RUST_LOG: "error",
      NO_COLOR: "1",
    },
    needs,
    hosts: [...modelHosts(spec, context), ...mcpHosts(spec)],
    files: [
      // Headers and environments of MCP servers hold secrets.
      { path: `${FOLDER}/config.toml`, content: toConfig(spec, context), mode: 0o600 },
      { path: `${TEMPORARY}/.keep`, content: "" },
      ...(key === undefined ? [] : [auth]),
      ...skillFiles(SKILLS_FOLDER, spec),
    ],
  };
}

export const INSTALL = "npm install -g @openai/codex";

/** The program of Codex, and the paths that it needs. */
export interface Program {
  readonly argv: readonly string[];
  readonly needs: readonly string[];
}

export function detect(options: { withVersion?: boolean } = {}): Promise<Detected> {
  return detectCli("codex", { install: INSTALL, ...options });
}

export function findProgram(context: LaunchContext): Program {
  const cli = requireCli("codex", { title: "Codex", install: INSTALL, context });
  if (!cli.path.endsWith(".js")) return { argv: [cli.path], needs: cli.needs };
  // npm's launcher only starts the binary beside it. It would be one more process to end.
  const native = findNative(cli.path);
  if (native) return native;
  return { argv: [process.execPath, cli.path], needs: [...cli.needs, process.execPath] };
}

/** `@openai/codex-<platform>-<arch>/vendor/<target>/bin/codex`, next to the launcher's package or inside of it. */
function findNative(launcher: string): Program | undefined {
  const root = packageRoot(launcher);
  if (root === undefined) return undefined;
  const name = `codex-${process.platform}-${process.arch}`;
  const folders = [join(dirname(root), name), join(root, "node_modules", "@openai", name), root];
  for (const folder of folders) {
    const vendor = join(folder, "vendor");
    for (const target of existsSync(vendor) ? readdirSync(vendor) : []) {
      const path = join(vendor, target, "bin", "codex");
      if (existsSync(path)) return { argv: [path], needs: [join(vendor, target)] };
    }
  }
  return undefined;
}
