import { join } from "node:path";
import { cacheFolder, ensurePackages } from "./cache.mjs";

/**
 * Clients for tests that need other versions of our own dependencies. The first package of a stack proves that the
 * whole stack is installed. The name of a stack says its version. Its dependencies are taken as of a day: a newer one
 * may need a version that is not there yet.
 */
export const CLIENTS = {
  "copilotkit-1.75": {
    specs: ["@copilotkit/runtime@1.75.0", "@copilotkit/core@1.75.0", "@ag-ui/client@0.0.59"],
    publishedBefore: "2026-10-01",
  },
  "tanstack-0.42": {
    specs: [
      "@tanstack/ai-claude-code@0.2.3",
      "@tanstack/ai-sandbox@0.2.4",
      "@tanstack/ai@0.42.0",
      "zod@4.6.7",
    ],
    publishedBefore: "2026-10-20",
  },
  "tanstack-code-mode-0.3": {
    specs: ["@tanstack/ai-code-mode@0.3.4", "@tanstack/ai@0.39.0", "zod@4.6.7"],
    publishedBefore: "2026-10-20",
  },
};

/** Installs the missing stacks and returns the folder with one subfolder per stack. */
export async function ensureClients() {
  const root = cacheFolder("clients");
  for (const [name, { specs, publishedBefore }] of Object.entries(CLIENTS)) {
    const [first] = specs;
    await ensurePackages(join(root, name), {
      specs,
      proof: join("node_modules", first.slice(0, first.lastIndexOf("@")), "package.json"),
      what: `the client ${name}`,
      args: ["--ignore-scripts", `--before=${publishedBefore}`],
    });
  }
  return root;
}
