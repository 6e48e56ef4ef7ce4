import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { lockFile, type FileLock } from "../../sqlite/lock.ts";

/** An engine that was seen alive this recently is not checked again, unless a client waits. */
const TRUST_MS = 1_000;
const PASSING = "@passing";

/** Whether the holder releases its sessions by itself, soon. */
export function isPassing(holder: string): boolean {
  return holder.endsWith(PASSING);
}

/** An engine's claim on its sessions, and its judgement of the claims of others. */
export interface Ownership {
  /** The owner in the log. */
  readonly name: string;
  /** Whether machines with other data folders share the log: a session may come here without its files. */
  readonly isShared: boolean;
  /** The name of this server among those that share the log, over its restarts. */
  readonly node?: string;
  /** Whether no other engine can have taken the sessions of this one over. */
  readonly isHeld: boolean;
  /** Resolves when `isHeld` is true again; fails when it never will be. */
  untilHeld(): Promise<void>;
  /** Call it after holders were read, and before `isFree` judges them. */
  refresh(): Promise<void>;
  /** Whether the sessions of a holder may be taken over: it is this engine, or it is dead. */
  isFree(holder: string, options?: { isUrgent?: boolean }): boolean;
  /** Whether a look for abandoned sessions may find one. */
  hasOrphans(): Promise<boolean>;
  /** Calls the listener when the holder of some sessions has gone. */
  onGone(listener: () => void): () => void;
  /** To be called after the last write. */
  release(): void;
}

/**
 * An engine's lease on the sessions of a data folder, and its check of other engines' leases. A lease is a locked file.
 * The kernel releases the lock with the process, in any container or host (docs/decisions/0049).
 */
export class Lease implements Ownership {
  readonly isShared = false;
  readonly isHeld = true;
  readonly name: string;
  readonly #folder: string;
  readonly #process = processName();
  readonly #lock: FileLock | undefined;
  readonly #seenAlive = new Map<string, number>();

  /** `passing` marks a short lease: a caretaker's round. */
  constructor(dataDir: string, { passing = false } = {}) {
    this.#folder = join(dataDir, "owners");
    this.#sweep();
    const nonce = randomBytes(8).toString("hex");
    this.#lock = this.#take(nonce);
    this.name = this.#lock ? `${this.#process}@${nonce}${passing ? PASSING : ""}` : this.#process;
  }

  async untilHeld(): Promise<void> {}

  /** Does nothing: `isFree` checks the file lock itself. */
  async refresh(): Promise<void> {}

  async hasOrphans(): Promise<boolean> {
    return true;
  }

  /** Never calls the listener: the regular sweep finds the sessions. */
  onGone(): () => void {
    return () => {};
  }

  /** Whether the holder's sessions may be taken over: it is this process, or it is dead. */
  isFree(holder: string, { isUrgent = false } = {}): boolean {
    const isOurs = holder === this.#process || holder.startsWith(`${this.#process}@`);
    return isOurs || !this.isAlive(holder, { isUrgent });
  }

  /** With `isUrgent` the holder is checked now, even if it was seen alive a moment ago. */
  isAlive(holder: string, { isUrgent = false } = {}): boolean {
    const now = performance.now();
    if (!isUrgent && now < (this.#seenAlive.get(holder) ?? 0)) return true;
    this.#seenAlive.delete(holder);
    // The five parts of `processName` precede the nonce.
    const nonce = holder.split("@")[5];
    // Both the process and the lock are checked. An engine may have closed although its process lives. A lock may be
    // held for a moment by a process that only tests it.
    const isAlive = isProcessAlive(holder) && (nonce === undefined || this.#isLocked(nonce));
    if (isAlive) this.#seenAlive.set(holder, now + TRUST_MS);
    return isAlive;
  }

  /** To be called after the last write. */
  release(): void {
    this.#lock?.release();
  }

  /** A missing file was removed by its holder, or by a process that could lock it. */
  #isLocked(nonce: string): boolean {
    const file = this.#file(nonce);
    if (!/^[0-9a-f]+$/.test(nonce) || !existsSync(file)) return false;
    try {
      const lock = lockFile(file);
      lock?.release();
      return lock === undefined && existsSync(file);
    } catch {
      // Unknown counts as alive.
      return true;
    }
  }

  /** On a full disk there is no lock, and other servers look for the process instead. */
  #take(nonce: string): FileLock | undefined {
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      return lockFile(this.#file(nonce));
    } catch {
      return undefined;
    }
  }

  /** Removes the files of killed processes: testing a free lock removes its file. */
  #sweep(): void {
    const files = existsSync(this.#folder) ? readdirSync(this.#folder) : [];
    for (const file of files) if (file.endsWith(".db")) this.#isLocked(file.slice(0, -3));
  }

  #file(nonce: string): string {
    return join(this.#folder, `${nonce}.db`);
  }
}

/** A unique name of this process. A pid alone is reused, and means another process in another namespace. */
export function processName(): string {
  const { pid } = process;
  return [pid, startTime(pid) ?? "?", bootId(), pidNamespace(), ourHost()].join("@");
}

/** A process of another boot, namespace or host cannot be checked from here, and counts as alive. */
export function isProcessAlive(holder: string): boolean {
  const [pid, start, boot, namespace = pidNamespace(), host = ourHost()] = holder.split("@");
  if (pid === undefined || start === undefined || boot === undefined) return false;
  if (boot !== bootId() || namespace !== pidNamespace() || host !== ourHost()) return true;
  return isAlive(pid, start);
}

/** Whether a process of this machine lives; `start` is "?" where the kernel does not tell it. */
export function isAlive(pid: string, start: string): boolean {
  const now = startTime(Number(pid));
  if (now !== undefined) return now === start;
  return start === "?" && answersSignals(Number(pid));
}

function ourHost(): string {
  return hostname().replaceAll("@", "");
}

/** The process's start in clock ticks since boot: field 22, behind a name that may hold any character. */
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
