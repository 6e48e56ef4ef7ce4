import { spawn, type StdioOptions } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach } from "vitest";
import type { SpoolLine } from "../../src/contract/index.ts";
import { openSpool, type HostSpool, type SpoolBatch, type WrappedStart } from "../../src/spool/index.ts";

const folders: string[] = [];
const spools: string[] = [];

/** A folder that the test's end removes, with all processes of the spools in it. */
export async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-spool-"));
  folders.push(folder);
  return folder;
}

/** Starts a command behind the spool, as a sandbox would, and returns the pid of its wrapper. */
export async function start(
  spool: HostSpool,
  command: readonly string[],
  { streams = "private" }: { streams?: "private" | "named" } = {},
): Promise<number> {
  spools.push(spool.folder);
  const run = async ({ wrapper, stdio }: Partial<WrappedStart>): Promise<void> => {
    const [program = "", ...args] = [...(wrapper ?? spool.wrapper), ...command];
    const streams = stdio === undefined ? "ignore" : ([stdio.stdin, stdio.stdout, "ignore"] as const);
    spawn(program, args, { detached: true, stdio: streams as StdioOptions, cwd: spool.folder }).unref();
  };
  await (streams === "named" ? run({}) : spool.begin(run));
  return (await waitFor(() => spool.pid())) as number;
}

export async function waitFor<T>(look: () => Promise<T | undefined | false>): Promise<T> {
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    await sleep(5);
  }
}

export async function collect(
  batches: AsyncIterable<SpoolBatch>,
): Promise<{ lines: SpoolLine[]; last: SpoolBatch }> {
  const lines: SpoolLine[] = [];
  let last: SpoolBatch = { lines: [], offset: 0 };
  for await (const batch of batches) {
    for (const line of batch.lines) lines.push(line);
    last = batch;
  }
  return { lines, last };
}

export async function followAll(
  spool: HostSpool,
  from = 0,
): Promise<{ lines: SpoolLine[]; last: SpoolBatch }> {
  return collect(spool.follow({ from, signal: new AbortController().signal }));
}

export const texts = (lines: readonly SpoolLine[]): string[] => lines.map((line) => line.text);

/** Cleans up after a spool that another process started. */
export function adopt(spool: HostSpool): void {
  spools.push(spool.folder);
}

afterEach(async () => {
  for (const folder of spools.splice(0)) await endProcess(folder);
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});

async function endProcess(folder: string): Promise<void> {
  const { readPid } = await import("../../src/spool/process.ts");
  const pid = await readPid(folder);
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    return;
  }
  await waitFor(async () => (await (await openSpool(folder))?.isAlive()) !== true);
}
