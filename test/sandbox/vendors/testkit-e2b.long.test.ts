import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "vitest";
import { createE2bProvider } from "../../../src/sandbox/e2b/provider.ts";
import type { HostProvider, HostSandbox, Sandbox, SandboxProvider } from "../../../src/sandbox/port.ts";
import { sandboxTestkit } from "../../../src/sandbox/testkit.ts";
import { startE2b } from "./e2b-emulator.ts";

/** Cases about a wrapper or a folder of this machine, which a machine elsewhere does not have. */
const HERE = new Set([
  "records pid, output and exit behind a wrapper that runs outside",
  "a signal reaches the process behind its wrapper",
]);

/** The kit spawns processes as this machine's sandboxes do. Elsewhere each has a name. */
function wrap(sandbox: Sandbox): HostSandbox {
  return new Proxy(sandbox, {
    get: (target, name) => {
      if (name === "spawn")
        return ({ launch }: Parameters<HostSandbox["spawn"]>[0]) =>
          sandbox.processes.start({
            name: randomUUID(),
            launch,
            streams: "named",
            input: new Uint8Array(),
          });
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  }) as HostSandbox;
}

function asHost(provider: SandboxProvider): HostProvider {
  const host = {
    id: provider.id,
    detect: () => provider.detect(),
    list: () => provider.list!(),
    create: async (spec, claim) => wrap(await provider.create(spec, claim)),
    connect: async (id, claim) => {
      const found = await provider.connect(id, claim);
      return found && wrap(found);
    },
  } satisfies HostProvider;
  return host;
}

sandboxTestkit({
  name: "e2b, against an emulator",
  async create() {
    const records = await mkdtemp(join(tmpdir(), "sluice-e2b-"));
    const { env } = await startE2b();
    const open = (): HostProvider => asHost(createE2bProvider({ records, env }));
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
  it: Object.assign(
    (name: string, body: () => Promise<void>) =>
      HERE.has(name) ? it.skip(`${name} (cannot: it is another machine)`, () => {}) : it(name, body, 120_000),
    { skip: (name: string, body: () => void) => void it.skip(name, body) },
  ),
});
