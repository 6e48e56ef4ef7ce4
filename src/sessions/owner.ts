import { readFileSync } from "node:fs";

/** This process, by a name that no later process can have: its pid alone would be reused. */
export function ownerName(pid = process.pid): string {
  return `${pid}@${startTime(pid) ?? "?"}@${bootId()}`;
}

/** Whether the process that owned a session is still there. */
export function isOwnerAlive(owner: string): boolean {
  const [pid, start, boot] = owner.split("@");
  if (pid === undefined || start === undefined || boot !== bootId()) return false;
  const now = startTime(Number(pid));
  if (now !== undefined) return now === start;
  return start === "?" && answersSignals(Number(pid));
}

/** Clock ticks since boot at which the process started: field 22, behind a name that may hold anything. */
function startTime(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

function bootId(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    return "";
  }
}

function answersSignals(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
