import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll } from "vitest";
import type { EgressPrograms } from "../../src/sandbox/egress/egress.ts";
import type { ProviderUnderTest } from "../../src/sandbox/testkit.ts";
import { bundleInto } from "../support/bundle.ts";

const SOURCES = resolve(import.meta.dirname, "../../src/sandbox");
let made: Promise<string> | undefined;

/** The sandboxes and both ends of the egress proxy as plain modules, for programs that are started (and killed) on their own. */
export function bundles(): Promise<string> {
  made ??= bundleAll();
  return made;
}

export async function egressPrograms(): Promise<EgressPrograms> {
  const folder = await bundles();
  return {
    host: join(folder, "egress-host.mjs"),
    guest: join(folder, "egress-guest.mjs"),
    preload: join(folder, "egress-preload.cjs"),
  };
}

/** Starts a program that makes a sandbox with the named factory and spawns a process in it. */
export function startingProgram(
  factory: string,
  options: unknown,
): NonNullable<ProviderUnderTest["program"]> {
  return async (task) => {
    const module = join(await bundles(), "sandbox.mjs");
    const launcher = join(import.meta.dirname, "fixtures", "launch.mjs");
    const args = [launcher, module, factory, JSON.stringify(options), JSON.stringify(task)];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    const exited = once(child, "exit");
    await Promise.race([once(child.stdout, "data"), exited]);
    if (child.exitCode !== null) throw new Error("the program ended before it had spawned anything");
    return {
      async kill() {
        child.kill("SIGKILL");
        await exited;
      },
    };
  };
}

async function bundleAll(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-bundles-"));
  const inputs = {
    sandbox: join(import.meta.dirname, "fixtures", "providers.ts"),
    "egress-host": join(SOURCES, "egress/host/main.ts"),
    "egress-guest": join(SOURCES, "egress/guest.ts"),
  };
  for (const [name, input] of Object.entries(inputs)) {
    await bundleInto(join(folder, `${name}.mjs`), input);
  }
  return folder;
}

afterAll(async () => {
  if (made !== undefined) await rm(await made, { recursive: true, force: true });
  made = undefined;
});
