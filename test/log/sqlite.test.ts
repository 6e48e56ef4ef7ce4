import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "vitest";
import { createSqliteLog } from "../../src/log/index.ts";
import { eventLogTestkit } from "../../src/log/testkit.ts";

eventLogTestkit({
  name: "sqlite",
  describe,
  it,
  create: async () => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-log-"));
    let newest = createSqliteLog({ folder });
    return {
      log: newest,
      reopen: async () => {
        await newest.close();
        newest = createSqliteLog({ folder });
        return newest;
      },
      dispose: async () => {
        await newest.close();
        await rm(folder, { recursive: true });
      },
    };
  },
});
