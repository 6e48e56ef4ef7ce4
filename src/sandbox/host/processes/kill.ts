import { setTimeout as sleep } from "node:timers/promises";
import { SluiceError } from "../../../contract/index.ts";
import type { Cgroup } from "./cgroup.ts";
import type { Members } from "./members.ts";
import { listDescendants, readProcesses } from "./procfs.ts";

const PATIENCE_MS = 10_000;
/**
 * The least number of scans before giving up. Time alone does not decide: on a crowded host a scan takes long, and a
 * killed process needs a core to end on.
 */
const LEAST_SCANS = 20;

/** Ends every member, until two scans in a row find none: a single scan may miss a process that forks meanwhile. */
export async function killMembers(members: Members, cgroup: Cgroup | undefined): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  for (let quiet = 0, pause = 1, scans = 1; quiet < 2; pause = Math.min(pause * 2, 50), scans += 1) {
    await cgroup?.kill();
    const pids = await members.find();
    quiet = pids.length === 0 ? quiet + 1 : 0;
    for (const pid of pids) sendSignal(pid, "SIGKILL");
    if (pids.length > 0 && scans >= LEAST_SCANS && performance.now() > deadline) throw notEnded(pids);
    if (quiet < 2) await sleep(pause);
  }
  await members.clear();
  await cgroup?.remove();
}

/** Stops all members, also those that start meanwhile. */
export async function pauseMembers(members: Members, cgroup: Cgroup | undefined): Promise<void> {
  const frozen = (await cgroup?.freeze(true)) ? await cgroup?.members() : [];
  await stopAll(() => members.find(), new Set(frozen));
}

/**
 * Stops the members that `findNear` knows, for a short time: faster than `pauseMembers`. Returns the function that
 * resumes them. Members that were paused before stay paused.
 */
export async function freezeMembers(
  members: Members,
  cgroup: Cgroup | undefined,
): Promise<() => Promise<void>> {
  if (await cgroup?.isFrozen()) return async () => {};
  if (await cgroup?.freeze(true)) return async () => void (await cgroup?.freeze(false));
  const stopped = new Set<number>();
  const findRunning = async (): Promise<number[]> =>
    (await members.findNear()).filter(({ state }) => state !== "T").map(({ pid }) => pid);
  await stopAll(findRunning, stopped);
  return async () => {
    for (const pid of stopped) sendSignal(pid, "SIGCONT");
  };
}

/** Stops found processes and adds them to `stopped`, until two scans in a row find no other. */
async function stopAll(find: () => Promise<number[]>, stopped: Set<number>): Promise<void> {
  for (let quiet = 0; quiet < 2;) {
    const fresh = (await find()).filter((pid) => !stopped.has(pid));
    quiet = fresh.length === 0 ? quiet + 1 : 0;
    for (const pid of fresh) {
      sendSignal(pid, "SIGSTOP");
      stopped.add(pid);
    }
  }
}

export async function resumeMembers(members: Members, cgroup: Cgroup | undefined): Promise<void> {
  await cgroup?.freeze(false);
  for (const pid of await members.find()) sendSignal(pid, "SIGCONT");
}

/** Kills a process and all of its descendants, including those in a pid namespace below it. */
export async function endTree(pid: number): Promise<void> {
  for (const member of listDescendants([pid], await readProcesses())) sendSignal(member, "SIGKILL");
  // A child that was started after the list was read is still in the group of its parent.
  sendSignal(-pid, "SIGKILL");
  sendSignal(pid, "SIGKILL");
}

/**
 * Sends a signal to a process, or to the process group of a negative pid; false where there is none. A pid of 0 would
 * mean the server's own group (the kernel writes 0 for a process of another pid namespace), -1 all processes. Pid 1 is
 * never a sandbox's.
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
