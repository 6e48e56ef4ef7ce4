import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { run, say } from "./setup.mjs";

/** The real agents that the tests drive, each at the version that its recordings and notes speak of. */
export const AGENTS = {
  claude: "@anthropic-ai/claude-code@2.1.325",
  codex: "@openai/codex@0.166.0",
  opencode: "opencode-ai@1.18.33",
  gemini: "@google/gemini-cli@0.61.0",
  grok: "@xai-official/grok@1.0.41",
};

/** They are large and not ours: a cache beside the package, never a dependency of it. */
const CACHE = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "sluice", "agents");

/** Installs what is missing and answers the PATH on which all of them are found. */
export async function ensureAgents() {
  for (const [id, spec] of Object.entries(AGENTS)) await ensureAgent(id, spec);
  const folders = Object.entries(AGENTS).map(([id, spec]) =>
    join(folderOf(id, spec), "node_modules", ".bin"),
  );
  return [...folders.filter((folder) => existsSync(folder)), process.env.PATH].join(delimiter);
}

async function ensureAgent(id, spec) {
  const folder = folderOf(id, spec);
  if (existsSync(join(folder, "node_modules", ".bin", id))) return;
  say(`installing the agent ${spec} for the tests …`);
  // Whole or not at all: an install that is cut short leaves no folder that looks like one.
  const partial = `${folder}.partial`;
  rmSync(partial, { recursive: true, force: true });
  mkdirSync(partial, { recursive: true });
  writeFileSync(join(partial, "package.json"), "{}\n");
  const args = ["install", spec, "--prefix", partial, "--no-audit", "--no-fund", "--loglevel=error"];
  // Grok's installer copies its binary to a second place; a folder beside it keeps the user's home clean.
  const env = { ...process.env, GROK_HOME: join(partial, "home") };
  const ended = await run("npm", args, { quiet: true, env });
  if (ended.code === 0) {
    rmSync(folder, { recursive: true, force: true });
    return renameSync(partial, folder);
  }
  process.stderr.write(ended.output);
  say(`could not install ${spec}: the tests that drive it are skipped, or fail under CI=true`);
}

function folderOf(id, spec) {
  return join(CACHE, `${id}-${spec.slice(spec.lastIndexOf("@") + 1)}`);
}
