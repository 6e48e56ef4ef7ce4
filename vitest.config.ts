import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // A poll ends with its condition. The default of one second is too short on a busy machine.
    expect: { poll: { timeout: 30_000 } },
    // Two cores: more files at once only make real processes slower.
    maxWorkers: 2,
  },
});
