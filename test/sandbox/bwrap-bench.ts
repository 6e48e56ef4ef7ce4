import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe } from "vitest";
import {
  createBwrapProvider,
  type HostSandbox,
  type HostProvider,
  type SandboxSpec,
} from "../../src/sandbox/index.ts";
import type { BwrapProviderOptions } from "../../src/sandbox/bwrap/provider.ts";
import { egressPrograms } from "./program.ts";

const detected = await createBwrapProvider({ root: join(tmpdir(), "sluice-probe") }).detect();
if (!detected.available && process.env["CI"] === "true") throw new Error(`no bwrap: ${detected.reason}`);

/** `describe`, or a skip that says why there is no bwrap here; under CI=true that is a failure. */
export const describeBwrap = (name: string, body: () => void): void => {
  if (detected.available) return void describe(name, body);
  describe.skip(`${name} (skipped: ${detected.reason})`, body);
};

const folders: string[] = [];
const sandboxes: HostSandbox[] = [];

export async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-bwrap-"));
  folders.push(folder);
  return folder;
}

export async function makeProvider(
  options: Partial<BwrapProviderOptions> = {},
): Promise<{ root: string; provider: HostProvider }> {
  const root = options.root ?? join(await makeFolder(), "data", "sandboxes");
  return { root, provider: createBwrapProvider({ root, programs: await egressPrograms(), ...options }) };
}

export async function makeSandbox(
  spec: Partial<SandboxSpec> = {},
): Promise<{ root: string; sandbox: HostSandbox }> {
  const { root, provider } = await makeProvider();
  return { root, sandbox: adopt(await provider.create({ id: "sbx_test", ...spec })) };
}

export function adopt(sandbox: HostSandbox): HostSandbox {
  sandboxes.push(sandbox);
  return sandbox;
}

afterEach(async () => {
  for (const sandbox of sandboxes.splice(0)) await sandbox.destroy();
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});
