import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { HostProvider, HostSandbox, Sandbox, SandboxProvider } from "../port.ts";
import type { Dial } from "../remote/dial.ts";
import { RemoteProvider, RemoteRecords } from "../remote/provider.ts";
import type { Capability } from "./suite.ts";

/** Cases about a wrapper or a folder of this machine, which another machine does not have. */
export const HERE_ONLY: ReadonlySet<string> = new Set([
  "records pid, output and exit behind a wrapper that runs outside",
  "a signal reaches the process behind its wrapper",
]);

/** What no sandbox behind a bare runner has, or what a testkit cannot do to another machine. */
export const RUNNER_LACKS: Readonly<Partial<Record<Capability, string>>> = {
  paths: "nothing is mounted there, so that only the API maps the pinned paths",
  isolation: "the account of a runner isolates nothing",
  survival: "a program of this machine cannot be its server without the dial of the test",
  memory: "limits are those of the account's control groups",
  processes: "limits are those of the account's control groups",
  cpus: "limits are those of the account's control groups",
  disk: "limits are those of the account's control groups",
};

/** A provider of another machine as the suite drives one: the suite spawns processes that have no name. */
export function asHostProvider(provider: SandboxProvider): HostProvider {
  return {
    id: provider.id,
    detect: () => provider.detect(),
    list: async () => (await provider.list?.()) ?? [],
    create: async (spec, claim) => asHostSandbox(await provider.create(spec, claim)),
    connect: async (id, claim) => {
      const found = await provider.connect(id, claim);
      return found && asHostSandbox(found);
    },
  };
}

/** Sandboxes behind the runner that this `dial` reaches. */
export async function openRunnerSubject(dial: Dial): Promise<{
  provider: HostProvider;
  reopen(): Promise<HostProvider>;
  dispose(): Promise<void>;
}> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-runner-"));
  const opened: RemoteProvider[] = [];
  const open = (): HostProvider => {
    const provider = new RemoteProvider({ id: "runner", dial, records: new RemoteRecords(folder) });
    opened.push(provider);
    return asHostProvider(provider);
  };
  const provider = open();
  return {
    provider,
    reopen: async () => open(),
    async dispose() {
      for (const { id } of await provider.list!()) await (await provider.connect(id))?.destroy();
      for (const one of opened) one.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function asHostSandbox(sandbox: Sandbox): HostSandbox {
  const spawn: HostSandbox["spawn"] = async ({ launch }) => {
    const process = { name: randomUUID(), launch, streams: "named", input: new Uint8Array() } as const;
    await sandbox.processes.start(process);
  };
  const proxy: Sandbox & Partial<HostSandbox> = new Proxy(sandbox, {
    get: (target, name) => {
      if (name === "spawn") return spawn;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  return proxy as HostSandbox;
}
