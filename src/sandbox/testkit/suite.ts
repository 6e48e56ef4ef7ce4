import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { SluiceError, type ErrorCode, type Launch } from "../../contract/index.ts";
import type { HostSandbox, HostProvider, SandboxSpec } from "../port.ts";

/** Capabilities that a provider may declare as missing. */
export type Capability =
  /** The agent sees the pinned paths, too, and not only the API. */
  | "paths"
  | "host"
  | "pause"
  | "memory"
  | "processes"
  | "cpus"
  | "disk"
  /** Sandboxes cannot see each other, nor the host. */
  | "isolation"
  /** The test can start another program that uses the provider, and kill it. */
  | "survival";

export interface ProviderUnderTest {
  readonly provider: HostProvider;
  /** Fields of every sandbox of the suite, such as an image. */
  readonly spec?: Omit<SandboxSpec, "id">;
  /** The provider as a restarted server makes it. */
  reopen(): Promise<HostProvider>;
  /** Starts a program that makes a sandbox of this id and spawns the launch in it; resolves after that. */
  program?(spawn: {
    id: string;
    launch: Launch;
    wrapper: readonly string[];
  }): Promise<{ kill(): Promise<void> }>;
  /** Ends all processes and removes all files. */
  dispose(): Promise<void>;
}

export interface Suite {
  it(name: string, body: (subject: ProviderUnderTest) => Promise<void>, needs?: Capability): void;
}

/** Makes a sandbox for the work, and destroys it afterwards, even if the work fails. */
export async function withSandbox(
  subject: ProviderUnderTest,
  spec: Partial<SandboxSpec>,
  work: (sandbox: HostSandbox) => Promise<void>,
): Promise<void> {
  const sandbox = await subject.provider.create({ id: "sbx_testkit", ...subject.spec, ...spec });
  try {
    await work(sandbox);
  } finally {
    await sandbox.destroy();
  }
}

/** Spawns a script in the workspace, and resolves when the file `ready` is there, which is written after the script. */
export async function spawnScript(
  sandbox: HostSandbox,
  script: string,
  options: { env?: Record<string, string>; wrapper?: readonly string[] } = {},
): Promise<void> {
  await sandbox.spawn({
    launch: { argv: ["/bin/sh", "-c", `${script}\necho > ready\nexec sleep 600`], env: options.env ?? {} },
    wrapper: options.wrapper ?? [],
  });
  await waitFor(() => read(sandbox, "ready"));
}

/** The text of a file; undefined where the file is missing. */
export async function read(sandbox: HostSandbox, path: string): Promise<string | undefined> {
  const bytes = await sandbox.files.read(path).catch((error: unknown) => {
    if (error instanceof SluiceError && error.code === "file_not_found") return undefined;
    throw error;
  });
  return bytes && Buffer.from(bytes).toString("utf8");
}

export async function waitFor<T>(look: () => Promise<T | undefined | false>): Promise<T> {
  const deadline = Date.now() + 30_000;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (Date.now() > deadline) assert.fail("waited half a minute without result");
    await sleep(5);
  }
}

export async function failsWith(code: ErrorCode, work: Promise<unknown>): Promise<void> {
  let failure: unknown;
  await work.catch((error: unknown) => (failure = error));
  assert.ok(failure instanceof SluiceError, `expected a SluiceError ${code}, got ${String(failure)}`);
  assert.equal(failure.code, code, failure.message);
}
