import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "vitest";
import { createLocalProvider } from "../../src/sandbox/index.ts";
import { Controllers } from "../../src/sandbox/host/processes/controllers.ts";
import { sandboxTestkit } from "../../src/sandbox/testkit.ts";
import { startingProgram } from "./program.ts";

const groups = await Controllers.locate("sluice-probe", undefined);
const noGroup = "this host has no control group for it that this user may use";

sandboxTestkit({
  name: "local",
  async create() {
    const root = join(await mkdtemp(join(tmpdir(), "sluice-local-")), "sandboxes");
    return {
      provider: createLocalProvider({ root }),
      reopen: async () => createLocalProvider({ root }),
      program: startingProgram("createLocalProvider", { root }),
      dispose: () => rm(join(root, ".."), { recursive: true, force: true }),
    };
  },
  declares: {
    paths: "it can mount nothing, so that only the API maps the pinned paths",
    isolation: "its processes are plain processes of the server's user",
    ...(groups.memory === undefined ? { memory: noGroup } : {}),
    ...(groups.pids === undefined ? { processes: noGroup } : {}),
    ...(groups.cpu === undefined ? { cpus: noGroup } : {}),
  },
  describe,
  it,
});
