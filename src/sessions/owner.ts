import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { lockFile, type FileLock } from "../sqlite/lock.ts";

/** For so long an owner that was seen alive is believed to be. */
const TRUST_MS = 1_000;

/**
 * One engine as the owner of sessions, and its judgement of the other owners of the data folder. It holds a lock on a
 * file of its own while it lives; the kernel releases it with the process, whatever host or container that is in
 * (docs/decisions/0049).
 */
export class Owner {
  readonly name: string;
  readonly #folder: string;
  readonly #process = processName();
  readonly #lock: FileLock | undefined;
  readonly #seenAlive = new Map<string, number>();

  constructor(dataDir: string) {
    this.#folder = join(dataDir, "owners");
    this.#sweep();
    const nonce = randomBytes(8).toString("hex");
    this.#lock = this.#take(nonce);
    this.name = this.#lock ? `${this.#process}@${nonce}` : this.#process;
  }

  /** Whether its sessions may be taken over: it is of this very process, or it is no more. */
  isFree(owner: string): boolean {
    return owner === this.#process || owner.startsWith(`${this.#process}@`) || !this.isAlive(owner);
  }

  isAlive(owner: string): boolean {
    const now = performance.now();
    if (now < (this.#seenAlive.get(owner) ?? 0)) return true;
    this.#seenAlive.delete(owner);
    const nonce = owner.split("@")[5];
    // Both: an engine may be closed while its process lives, and whoever looks at a lock holds it for a moment.
    const isAlive = isProcessAlive(owner) && (nonce === undefined || this.#isLocked(nonce));
    if (isAlive) this.#seenAlive.set(owner, now + TRUST_MS);
    return isAlive;
  }

  /** To be called when nothing is written any more. */
  close(): void {
    this.#lock?.release();
  }

  /** A file that is not there was removed by its owner, or by somebody who could lock it. */
  #isLocked(nonce: string): boolean {
    const file = this.#file(nonce);
    if (!/^[0-9a-f]+$/.test(nonce) || !existsSync(file)) return false;
    try {
      const lock = lockFile(file);
      lock?.release();
      return lock === undefined && existsSync(file);
    } catch {
      // What cannot be looked at may be alive.
      return true;
    }
  }

  /** On a full disk there is none, and others look for the process itself. */
  #take(nonce: string): FileLock | undefined {
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      return lockFile(this.#file(nonce));
    } catch {
      return undefined;
    }
  }

  /** Takes away the files of owners that were killed. */
  #sweep(): void {
    const files = existsSync(this.#folder) ? readdirSync(this.#folder) : [];
    for (const file of files) if (file.endsWith(".db")) this.#isLocked(file.slice(0, -3));
  }

  #file(nonce: string): string {
    return join(this.#folder, `${nonce}.db`);
  }
}

/** This process, by a name that no other can have: its pid alone would be reused, and is another's in another namespace. */
export function processName(): string {
  const { pid } = process;
  return [pid, startTime(pid) ?? "?", bootId(), pidNamespace(), ourHost()].join("@");
}

/** Whether the owner's process is there: one that cannot be looked at from here may be. */
function isProcessAlive(owner: string): boolean {
  const [pid, start, boot, namespace = pidNamespace(), host = ourHost()] = owner.split("@");
  if (pid === undefined || start === undefined || boot === undefined) return false;
  if (boot !== bootId() || namespace !== pidNamespace() || host !== ourHost()) return true;
  const now = startTime(Number(pid));
  if (now !== undefined) return now === start;
  return start === "?" && answersSignals(Number(pid));
}

function ourHost(): string {
  return hostname().replaceAll("@", "");
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

function pidNamespace(): string {
  try {
    return readlinkSync("/proc/self/ns/pid").replaceAll(/\D/g, "");
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
