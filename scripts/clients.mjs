import { join } from "node:path";
import { cacheFolder, ensurePackages } from "./cache.mjs";

/**
 * Clients that the tests run and that cannot stand beside our own dependencies: each asks for other versions of the
 * same packages. The first package of a stack proves that all of it is there; a stack's name says its version.
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

/** Installs what is missing and answers the folder in which every stack has one of its own. */
export async function ensureClients() {
  const root = cacheFolder("clients");
  for (const [name, specs] of Object.entries(CLIENTS)) {
    const [first] = specs;
    await ensurePackages(join(root, name), {
      specs,
      proof: join("node_modules", first.slice(0, first.lastIndexOf("@")), "package.json"),
      what: `the client ${name}`,
      args: ["--ignore-scripts"],
    });
  }
  return root;
}
