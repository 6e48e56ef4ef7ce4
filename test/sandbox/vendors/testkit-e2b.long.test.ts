import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "vitest";
import { createE2bProvider } from "../../../src/sandbox/e2b/provider.ts";
import type { HostProvider } from "../../../src/sandbox/port.ts";
import { asHostProvider, sandboxTestkit, withoutHere } from "../../../src/sandbox/testkit.ts";
import { startE2b } from "./e2b-emulator.ts";

sandboxTestkit({
  name: "e2b, against an emulator",
  async create() {
    const records = await mkdtemp(join(tmpdir(), "sluice-e2b-"));
    const { env } = await startE2b();
    const open = (): HostProvider => asHostProvider(createE2bProvider({ records, env }));
    return {
      provider: open(),
      reopen: async () => open(),
      dispose: () => rm(records, { recursive: true, force: true }),
    };
  },
  declares: {
    paths: "nothing is mounted there, so that only the API maps the pinned paths",
    isolation: "the emulator's machines are folders of this one",
    survival: "e2b-server.long.test.ts kills the server",
    pause: "files of a machine that sleeps cannot be read; e2b-provider.long.test.ts pauses it",
    memory: "limits are the template's",
    processes: "limits are the template's",
    cpus: "limits are the template's",
    disk: "limits are the template's",
  },
  describe,
  it: withoutHere(it),
});
