import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { SluiceError, type ErrorCode, type Launch } from "../../contract/index.ts";
import type { Sandbox, SandboxProvider, SandboxSpec } from "../port.ts";

/** What a provider may lack, if it says so. */
export type Capability =
  /** The pinned paths are the agent's own paths, and not only the API's. */
  | "paths"
  | "host"
  | "pause"
  | "memory"
  | "processes"
  | "cpus"
  | "disk"
  /** Sandboxes cannot see each other, nor the host. */
  | "isolation"
  /** Another program can be started that uses the provider, and be killed. */
  | "survival";

export interface ProviderUnderTest {
  readonly provider: SandboxProvider;
  /** What every sandbox of the suite is made with beside its own, such as an image. */
  readonly spec?: Omit<SandboxSpec, "id">;
  /** The same provider as a restarted server has it. */
  reopen(): Promise<SandboxProvider>;
  /** Starts a program that makes a sandbox by this id and spawns this in it; answers when it has. */
  program?(spawn: {
    id: string;
    launch: Launch;
    wrapper: readonly string[];
  }): Promise<{ kill(): Promise<void> }>;
  /** Ends what still runs and removes all that was made. */
  dispose(): Promise<void>;
}

export interface Suite {
  it(name: string, body: (subject: ProviderUnderTest) => Promise<void>, needs?: Capability): void;
}

/** A sandbox that is destroyed again, whatever happens. */
export async function withSandbox(
  subject: ProviderUnderTest,
  spec: Partial<SandboxSpec>,
  work: (sandbox: Sandbox) => Promise<void>,
): Promise<void> {
  const sandbox = await subject.provider.create({ id: "sbx_testkit", ...subject.spec, ...spec });
  try {
    await work(sandbox);
  } finally {
    await sandbox.destroy();
  }
}

/** Spawns a script in the workspace, and answers when it has written the file `ready` there. */
export async function spawnScript(
  sandbox: Sandbox,
  script: string,
  options: { env?: Record<string, string>; wrapper?: readonly string[] } = {},
): Promise<void> {
  await sandbox.spawn({
    launch: { argv: ["/bin/sh", "-c", `${script}\necho > ready\nexec sleep 600`], env: options.env ?? {} },
    wrapper: options.wrapper ?? [],
  });
  await waitFor(() => read(sandbox, "ready"));
}

/** The text of a file, or undefined where there is none yet. */
export async function read(sandbox: Sandbox, path: string): Promise<string | undefined> {
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
    if (Date.now() > deadline) assert.fail("waited for half a minute, in vain");
    await sleep(5);
  }
}

export async function failsWith(code: ErrorCode, work: Promise<unknown>): Promise<void> {
  let failure: unknown;
  await work.catch((error: unknown) => (failure = error));
  assert.ok(failure instanceof SluiceError, `expected a SluiceError ${code}, got ${String(failure)}`);
  assert.equal(failure.code, code, failure.message);
}
