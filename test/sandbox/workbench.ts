import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach } from "vitest";
import {
  createLocalProvider,
  type HostSandbox,
  type HostProvider,
  type SandboxSpec,
} from "../../src/sandbox/index.ts";

const folders: string[] = [];
const sandboxes: HostSandbox[] = [];

export async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-sandbox-"));
  folders.push(folder);
  return folder;
}

export async function makeSandbox(
  spec: Partial<SandboxSpec> = {},
): Promise<{ root: string; provider: HostProvider; sandbox: HostSandbox }> {
  const root = join(await makeFolder(), "sandboxes");
  const provider = createLocalProvider({ root });
  const sandbox = await provider.create({ id: "sbx_test", ...spec });
  sandboxes.push(sandbox);
  return { root, provider, sandbox };
}

/** Runs a script as a spawned process, and answers when it has written the file `ready` in the workspace. */
export async function spawnScript(
  sandbox: HostSandbox,
  script: string,
  env: Record<string, string> = {},
): Promise<void> {
  await sandbox.spawn({
    launch: { argv: ["sh", "-c", `${script}\necho > ready\nsleep 600`], env },
    wrapper: [],
  });
  await waitFor(() => readFile(join(sandbox.paths.workspace, "ready")).catch(() => undefined));
}

export async function readPids(sandbox: HostSandbox, name: string): Promise<number[]> {
  const text = await readFile(join(sandbox.paths.workspace, name), "utf8");
  return text.trim().split("\n").map(Number);
}

/** Whether it runs; a zombie does not. */
export async function lives(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => ") X");
  return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(")") + 2));
}

export async function waitFor<T>(look: () => Promise<T | undefined | false>): Promise<T> {
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    await sleep(5);
  }
}

afterEach(async () => {
  for (const sandbox of sandboxes.splice(0)) await sandbox.destroy();
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});
