import { setTimeout as sleep } from "node:timers/promises";
import { SluiceError } from "../../contract/index.ts";
import type { Cgroup } from "./cgroup.ts";
import type { Members } from "./members.ts";

const PATIENCE_MS = 10_000;
/** On a crowded host the looks themselves take long, and what was killed needs a core to end on. */
const LEAST_LOOKS = 20;

/** Ends every member, and looks again until nobody was there twice in a row: a fork may hide between two looks. */
export async function killMembers(members: Members, cgroup: Cgroup | undefined): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  for (let quiet = 0, pause = 1, looks = 1; quiet < 2; pause = Math.min(pause * 2, 50), looks += 1) {
    await cgroup?.kill();
    const pids = await members.find();
    quiet = pids.length === 0 ? quiet + 1 : 0;
    for (const pid of pids) sendSignal(pid, "SIGKILL");
    if (pids.length > 0 && looks >= LEAST_LOOKS && performance.now() > deadline) throw notEnded(pids);
    if (quiet < 2) await sleep(pause);
  }
  await members.clear();
  await cgroup?.remove();
}

/** Stops all members where they stand, those too that are born meanwhile. */
export async function pauseMembers(members: Members, cgroup: Cgroup | undefined): Promise<void> {
  const stopped = new Set((await cgroup?.freeze(true)) ? await cgroup?.members() : []);
  for (let quiet = 0; quiet < 2;) {
    const fresh = (await members.find()).filter((pid) => !stopped.has(pid));
    quiet = fresh.length === 0 ? quiet + 1 : 0;
    for (const pid of fresh) {
      sendSignal(pid, "SIGSTOP");
      stopped.add(pid);
    }
  }
}

/**
 * The same at once, by who is known without asking every process of the host. Answers how they go on; what was paused
 * already stays paused.
 */
export async function freezeMembers(
  members: Members,
  cgroup: Cgroup | undefined,
): Promise<() => Promise<void>> {
  if (await cgroup?.isFrozen()) return async () => {};
  if (await cgroup?.freeze(true)) return async () => void (await cgroup?.freeze(false));
  const stopped = new Set<number>();
  for (let quiet = 0; quiet < 2;) {
    const fresh = (await members.findNear()).filter(({ pid, state }) => state !== "T" && !stopped.has(pid));
    quiet = fresh.length === 0 ? quiet + 1 : 0;
    for (const { pid } of fresh) {
      sendSignal(pid, "SIGSTOP");
      stopped.add(pid);
    }
  }
  return async () => {
    for (const pid of stopped) sendSignal(pid, "SIGCONT");
  };
}

export async function resumeMembers(members: Members, cgroup: Cgroup | undefined): Promise<void> {
  await cgroup?.freeze(false);
  for (const pid of await members.find()) sendSignal(pid, "SIGCONT");
}

/**
 * False when there is nobody to get it. The kernel writes 0 for a process or group of another pid namespace; to signal 0
 * would be our own group, -1 all processes, and 1 is never a sandbox's.
 */
export function sendSignal(pid: number, signal: NodeJS.Signals): boolean {
  if (!Number.isInteger(pid) || Math.abs(pid) < 2) return false;
  try {
    return process.kill(pid, signal);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ESRCH" || code === "EPERM") return false;
    throw error;
  }
}

function notEnded(pids: readonly number[]): SluiceError {
  const list = pids.join(" ");
  const detail = `After ${PATIENCE_MS / 1_000} seconds or more these processes of the sandbox still live: ${list}. They may belong to another user or hang in the kernel; end them with \`kill -9 ${list}\` as a user who may.`;
  return new SluiceError("internal", detail, { pids });
}
