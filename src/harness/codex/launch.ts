import { join } from "node:path";
import type { Launch, SessionSpec } from "../../contract/index.ts";
import { hostOf, mcpHosts } from "../hosts.ts";
import type { LaunchContext } from "../port.ts";
import { KEYS, toConfig } from "./config.ts";
import { isKeyLogin } from "./login.ts";
import { findProgram } from "./program.ts";
import { skillFiles } from "../skills.ts";

const FOLDER = ".codex";
export const SKILLS_FOLDER: string = `${FOLDER}/skills`;
/** Codex refuses to work from a home that lies in the folder for temporary files. */
const TEMPORARY = ".cache/codex-tmp";

/** How the app-server is started. What it shall do is said to it later, when the conversation is opened. */
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

/** A key is for the API, a login for ChatGPT's own host. Nothing inside renews a login, so it goes nowhere for that. */
function modelHosts({ env, secrets }: SessionSpec, context: LaunchContext): string[] {
  const base = env?.["OPENAI_BASE_URL"];
  if (base !== undefined) return hostOf(base);
  const hasKey = KEYS.some((name) => (context.env?.[name] ?? env?.[name] ?? secrets?.[name]) !== undefined);
  return hasKey || isKeyLogin(context.login) ? ["api.openai.com"] : ["chatgpt.com"];
}
