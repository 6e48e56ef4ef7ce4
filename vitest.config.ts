import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Two cores: more files at once only make real processes slower.
    maxWorkers: 2,
    // Hundreds of real processes on a shared machine: one that was starved gets another chance, a fault fails each time.
    retry: process.env["CI"] === "true" ? 1 : 0,
  },
});
