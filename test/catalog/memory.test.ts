import { describe, it } from "vitest";
import { createMemoryCatalog } from "../../src/catalog/index.ts";
import { catalogTestkit } from "../../src/catalog/testkit.ts";

catalogTestkit({
  name: "memory",
  describe,
  it,
  volatile: true,
  create: async () => {
    const clock = { now: Date.UTC(2026, 0, 2, 3, 4, 5, 678) };
    const catalog = createMemoryCatalog({ now: () => clock.now });
    return { catalog, clock, dispose: () => catalog.close() };
  },
});
