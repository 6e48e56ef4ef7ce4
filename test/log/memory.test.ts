import { describe, it } from "vitest";
import { createMemoryLog } from "../../src/log/index.ts";
import { eventLogTestkit } from "../../src/log/testkit.ts";

eventLogTestkit({
  name: "memory",
  volatile: true,
  describe,
  it,
  create: async () => {
    const log = createMemoryLog();
    return { log, dispose: () => log.close() };
  },
});
