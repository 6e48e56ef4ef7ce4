import { readFileSync } from "node:fs";
import { defineConfig, type UserConfig } from "tsdown";

const shared: UserConfig = { platform: "node", target: "node20", fixedExtension: false, clean: false };

/** A program that runs inside of a sandbox or beside it: one file that needs no other. */
function program(name: string, source: string, format: "esm" | "cjs" = "esm"): UserConfig {
  return { ...shared, entry: { [`agents/${name}`]: source }, format, dts: false };
}

/** Dependencies that are plain scripts, each with what lies below it. Their licences go with them. */
const BUNDLED = (
  JSON.parse(readFileSync(new URL("scripts/bundled.json", import.meta.url), "utf8")) as string[]
).map((name) => new RegExp(`^${name}($|/)`));

export default defineConfig([
  {
    ...shared,
    entry: {
      index: "src/index.ts",
      "contract/index": "src/contract/index.ts",
      "client/index": "src/client/index.ts",
      "log/index": "src/log/index.ts",
      "log/postgres/index": "src/log/postgres/open.ts",
      "log/testkit": "src/log/testkit.ts",
      "harness/index": "src/harness/index.ts",
      "sandbox/index": "src/sandbox/index.ts",
      "sandbox/testkit": "src/sandbox/testkit.ts",
      "sandbox/docker/index": "src/sandbox/docker/provider.ts",
      "sandbox/ssh/index": "src/sandbox/ssh/provider.ts",
      "sandbox/kubernetes/index": "src/sandbox/kubernetes/provider.ts",
      "sandbox/e2b/index": "src/sandbox/e2b/provider.ts",
      "sandbox/daytona/index": "src/sandbox/daytona/provider.ts",
      "sandbox/vercel/index": "src/sandbox/vercel/provider.ts",
      "dialects/universal/index": "src/dialects/universal/index.ts",
      "dialects/ndjson/index": "src/dialects/ndjson/index.ts",
      "dialects/ag-ui/index": "src/dialects/ag-ui/index.ts",
      "dialects/anthropic/index": "src/dialects/anthropic/index.ts",
      "dialects/sdk/index": "src/dialects/sdk/index.ts",
      "tanstack/index": "src/tanstack/index.ts",
      "tanstack/sandbox/index": "src/tanstack/sandbox/index.ts",
      "http/index": "src/http/index.ts",
      "testing/index": "src/testing/index.ts",
      "agents/caretaker": "src/sessions/upkeep/caretaker-main.ts",
    },
    format: "esm",
    dts: true,
    // Types of clients, which frames are checked against; no declaration of ours needs them.
    external: ["@ag-ui/core", /^@anthropic-ai\/sdk/],
  },
  {
    ...shared,
    outDir: "dist/cli",
    entry: { start: "src/cli/start.ts", main: "src/cli/main.ts", openapi: "src/cli/openapi.ts" },
    // Plain scripts, because their compiled code can be kept (record 0059).
    format: "cjs",
    dts: false,
    // Hundreds of small files, or a library's parts that nobody uses, cost more at the start than the rest together.
    noExternal: BUNDLED,
    // Cached code has lost the module loader of `import()` (Node 20), so optional packages are required.
    outputOptions: { dynamicImportInCjs: false },
  },
  // A new process for every session: as a plain script it starts 5 ms sooner than as a module.
  program("scripted", "src/scripted-agent/main.ts", "cjs"),
  program("amp-gate", "src/harness/amp/gate.ts"),
  program("opencode-gateway", "src/harness/opencode/gateway/main.ts"),
  program("tools", "src/tools/program/main.ts"),
  program("egress-host", "src/sandbox/egress/host/main.ts"),
  program("egress-guest", "src/sandbox/egress/guest.ts"),
  program("egress-preload", "src/sandbox/egress/preload.ts", "cjs"),
  program("docker-exec", "src/sandbox/docker/exec/main.ts"),
  program("docker-launch", "src/sandbox/docker/exec/launch.ts"),
  program("runner", "src/sandbox/runner/main.ts", "cjs"),
]);
