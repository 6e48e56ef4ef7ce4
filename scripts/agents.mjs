import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { cacheFolder, ensurePackages } from "./cache.mjs";

/** The real agents that the tests drive, each at the version of its recordings and notes. */
export const AGENTS = {
  claude: "@anthropic-ai/claude-code@2.1.325",
  codex: "@openai/codex@0.166.0",
  opencode: "opencode-ai@1.18.33",
  gemini: "@google/gemini-cli@0.61.0",
  grok: "@xai-official/grok@1.0.41",
};

/** Installs the missing ones and returns a PATH with all of them. */
export async function ensureAgents() {
  const folders = [];
  for (const [id, spec] of Object.entries(AGENTS)) {
    const folder = cacheFolder("agents", `${id}-${spec.slice(spec.lastIndexOf("@") + 1)}`);
    await ensurePackages(folder, {
      specs: [spec],
      proof: join("node_modules", ".bin", id),
      what: `the agent ${spec}`,
      // Grok's installer copies its binary a second time; a folder beside it keeps the user's home clean.
      env: (partial) => ({ GROK_HOME: join(partial, "home") }),
    });
    folders.push(join(folder, "node_modules", ".bin"));
  }
  return [...folders.filter((folder) => existsSync(folder)), process.env.PATH].join(delimiter);
}
