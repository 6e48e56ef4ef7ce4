import { defineConfig } from "tsdown";

export default defineConfig({
  entry: {
    index: "src/index.ts",
    "contract/index": "src/contract/index.ts",
    "client/index": "src/client/index.ts",
    "log/index": "src/log/index.ts",
    "log/testkit": "src/log/testkit.ts",
    "harness/index": "src/harness/index.ts",
    "sandbox/index": "src/sandbox/index.ts",
    "dialects/universal/index": "src/dialects/universal/index.ts",
    "http/index": "src/http/index.ts",
    "cli/main": "src/cli/main.ts",
    "cli/openapi": "src/cli/openapi.ts",
    "agents/scripted": "src/harness/scripted/agent/main.ts",
  },
  format: "esm",
  platform: "node",
  target: "node20",
  fixedExtension: false,
  dts: true,
  clean: false,
});
