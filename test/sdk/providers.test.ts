import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SluiceError } from "../../src/contract/index.ts";
import { createLocalProvider, type HostSandbox, type HostProvider } from "../../src/sandbox/index.ts";
import { script as steps } from "../support/engine.ts";
import { hear, openBench, type SdkBench } from "./bench.ts";

/** The page's caveats: a provider with fewer capabilities. */
describe("a provider without pause and without signals", () => {
  let bench: SdkBench;
  let provider: HostProvider;
  beforeEach(async () => {
    bench = await openBench({ backend: "embedded", sandbox: "local" });
    provider = lesser(createLocalProvider({ root: join(bench.folder, "lesser") }));
  });
  afterEach(() => bench.close());

  it("refuses to pause, cannot interrupt a command, and runs everything else", async () => {
    const sluice = bench.make().withSandbox(provider);
    const heard = hear(sluice);
    expect((await sluice.run({ prompt: steps({ say: "x" }) })).exitCode).toBe(0);
    await expect(sluice.pause()).rejects.toMatchObject({ code: "capability_missing" });
    const command = sluice.executeCommand("until [ -e go ]; do sleep 0.02; done; echo to the end");
    while (sluice.status().activeProcessId === null) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(await sluice.interrupt()).toBe(false);
    await expect(sluice.setSession("ses_other")).rejects.toMatchObject({ code: "session_busy" });
    await sluice.uploadFiles({ go: "" });
    expect(await command).toMatchObject({ exitCode: 0, stdout: "to the end\n" });
    expect(heard.reasons()).not.toContain("command_interrupted");
    await sluice.kill();
    expect(await readdir(join(bench.folder, "lesser"))).toEqual([]);
  });

  it("EV-31: a provider that fails gives sandbox_error and leaves nothing", async () => {
    const broken: HostProvider = {
      ...lesser(provider),
      create: () => Promise.reject(new Error("no room")),
    };
    const sluice = bench.make().withSandbox(broken);
    const heard = hear(sluice);
    await expect(sluice.run({ prompt: "x" })).rejects.toThrow("no room");
    expect(heard.lifecycle.map(({ reason, sandbox }) => `${reason} ${sandbox}`)).toEqual([
      "sandbox_boot booting",
      "sandbox_error error",
    ]);
    expect(sluice.status()).toMatchObject({ sandbox: "error", sandboxId: null });
    // The next one may be another.
    expect((await sluice.withSandbox(provider).executeCommand("echo made")).stdout).toBe("made\n");
  });
});

function lesser(provider: HostProvider): HostProvider {
  return {
    id: "lesser",
    detect: () => provider.detect(),
    create: async (spec, claim) => weaken(await provider.create(spec, claim)),
    connect: async (id, claim) => {
      const found = await provider.connect(id, claim);
      return found && weaken(found);
    },
  };
}

const lacking = (): Promise<never> =>
  Promise.reject(new SluiceError("capability_missing", "there are no signals here"));

/** The same sandbox with fewer methods: a missing one is a missing capability. */
function weaken(sandbox: HostSandbox): HostSandbox {
  const { id, provider, isolated, paths, folders, files, tree, processes } = sandbox;
  return {
    id,
    provider,
    isolated,
    paths,
    folders,
    files,
    ...(tree ? { tree } : {}),
    processes: {
      start: (process) => processes.start(process),
      open: (name) => processes.open(name),
      signal: lacking,
    },
    spawn: (process) => sandbox.spawn(process),
    signal: lacking,
    killAll: () => sandbox.killAll(),
    exec: (command, options) => sandbox.exec(command, options),
    destroy: () => sandbox.destroy(),
  };
}
