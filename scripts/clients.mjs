import { join } from "node:path";
import { cacheFolder, ensurePackages } from "./cache.mjs";

/**
 * Clients for tests that need other versions of our own dependencies. The first package of a stack proves that the
 * whole stack is installed. The name of a stack says its version.
 */
export const CLIENTS = {
  "copilotkit-1.75": ["@copilotkit/runtime@1.75.0", "@copilotkit/core@1.75.0", "@ag-ui/client@0.0.59"],
  "tanstack-0.42": [
    "@tanstack/ai-claude-code@0.2.3",
    "@tanstack/ai-sandbox@0.2.4",
    "@tanstack/ai@0.42.0",
    "zod@4.6.7",
  ],
  "tanstack-code-mode-0.3": ["@tanstack/ai-code-mode@0.3.4", "@tanstack/ai@0.39.0", "zod@4.6.7"],
};

/** Dependencies of a stack are taken as of this day: a newer one may need a version that is not there yet. */
const PUBLISHED_BEFORE = "2026-10-20";

/** Installs the missing stacks and returns the folder with one subfolder per stack. */
export async function ensureClients() {
  const root = cacheFolder("clients");
  for (const [name, specs] of Object.entries(CLIENTS)) {
    const [first] = specs;
    await ensurePackages(join(root, name), {
      specs,
      proof: join("node_modules", first.slice(0, first.lastIndexOf("@")), "package.json"),
      what: `the client ${name}`,
      args: ["--ignore-scripts", `--before=${PUBLISHED_BEFORE}`],
    });
  }
  return root;
}
