import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "vitest";
import { createBwrapProvider } from "../../src/sandbox/index.ts";
import { Controllers } from "../../src/sandbox/host/processes/controllers.ts";
import { sandboxTestkit } from "../../src/sandbox/testkit.ts";
import { describeBwrap } from "./bwrap-bench.ts";
import { egressPrograms, startingProgram } from "./program.ts";

const groups = await Controllers.locate("sluice-probe", undefined);
const noGroup = "this host has no control group for it that this user may use";

sandboxTestkit({
  name: "bwrap",
  async create() {
    const programs = await egressPrograms();
    const root = join(await mkdtemp(join(tmpdir(), "sluice-bwrap-")), "data", "sandboxes");
    const options = { root, programs };
    return {
      provider: createBwrapProvider(options),
      reopen: async () => createBwrapProvider(options),
      program: startingProgram("createBwrapProvider", options),
      dispose: () => rm(join(root, "../.."), { recursive: true, force: true }),
    };
  },
  declares: {
    ...(groups.memory === undefined ? { memory: noGroup } : {}),
    ...(groups.pids === undefined ? { processes: noGroup } : {}),
    ...(groups.cpu === undefined ? { cpus: noGroup } : {}),
  },
  describe: describeBwrap,
  it,
});
