import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { findOwnProgram } from "../../harness/launch/executable.ts";
import { isAlive, processName } from "./lease.ts";

/** How long idle agents may live without a server. */
export const DEFAULT_ORPHAN_MS = 900_000;

/**
 * Waits for the end of the server's process, then for the time in which another server may start, then runs the
 * caretaker. While the caretaker exits with 0, a turn still runs, and the last two steps are repeated. The script exits
 * when the log is gone.
 */
const SCRIPT = `pid=$1 start=$2 look=$3 seconds=$4 log=$5
shift 5
twentieth() { shift 19; now=$1; }
lives() {
  now= stat=
  { read -r stat < "/proc/$pid/stat"; } 2> /dev/null
  [ -n "$stat" ] || { [ "$start" = '?' ] && kill -0 "$pid" 2> /dev/null; return; }
  twentieth \${stat##*) }
  [ "$now" = "$start" ]
}
while lives; do sleep "$look"; [ -e "$log" ] || exit 0; done
while sleep "$seconds"; [ -e "$log" ]; do "$@" > /dev/null 2>&1 || exit 0; done`;

const LOOK_SECONDS = 5;
const NAME = "sluice-caretaker";
/** The name of an empty file in the data folder for each watch; the watch's pid follows. */
const FILE = "caretaker-";

/** Ends idle agents of this data folder when the server is killed and none comes back (docs/decisions/0031). */
export class Caretaker {
  readonly #dataDir: string;
  readonly #afterMs: number;
  #watch: ChildProcess | undefined;

  constructor(options: { dataDir: string; afterMs: number }) {
    this.#dataDir = options.dataDir;
    this.#afterMs = options.afterMs;
  }

  /** To be called before an agent is started. */
  begin(): void {
    const program = join(dirname(findOwnProgram().path), "caretaker.js");
    if (this.#watch !== undefined || this.#afterMs === 0 || !existsSync(program)) return;
    this.#endOrphaned();
    const [pid = "", start = "?"] = processName().split("@");
    const seconds = this.#afterMs / 1_000;
    const times = [Math.min(LOOK_SECONDS, seconds), seconds].map(String);
    const words = [pid, start, ...times, this.#log];
    const argv = ["-c", SCRIPT, NAME, ...words, process.execPath, program, this.#dataDir];
    const watch = spawn("/bin/sh", argv, { cwd: "/", detached: true, stdio: "ignore" });
    // Without the watch, idle agents live too long; that must not stop the start.
    watch.on("error", () => {});
    watch.unref();
    this.#watch = watch;
    if (watch.pid === undefined) return;
    try {
      writeFileSync(this.#file(watch.pid), "", { mode: 0o600 });
    } catch {
      // No later server finds this watch; it ends by itself.
    }
  }

  /** Ends the watch when nothing is left to end. */
  async end(): Promise<void> {
    const watch = this.#watch;
    this.#watch = undefined;
    if (watch?.pid === undefined || watch.exitCode !== null || watch.signalCode !== null) return;
    watch.ref();
    const exited = once(watch, "exit");
    this.#kill(watch.pid);
    await exited;
  }

  /** Ends the watches of killed servers: this server looks after their sessions. Those of living servers stay. */
  #endOrphaned(): void {
    for (const name of existsSync(this.#dataDir) ? readdirSync(this.#dataDir) : []) {
      const pid = name.startsWith(FILE) ? Number(name.slice(FILE.length)) : Number.NaN;
      if (!Number.isSafeInteger(pid) || pid < 2) continue;
      const words = readWords(pid);
      // The pid may belong to another process by now.
      const isWatch = words.includes(NAME) && words.includes(this.#log);
      const [server = "", start = ""] = words.slice(words.indexOf(NAME) + 1);
      if (!isWatch) this.#forget(pid);
      else if (!isAlive(server, start)) this.#kill(pid);
    }
  }

  #kill(pid: number): void {
    try {
      // The group includes its `sleep`.
      process.kill(-pid, "SIGKILL");
    } catch {
      // It has ended.
    }
    this.#forget(pid);
  }

  /** Never fails: it runs before the start of an agent. */
  #forget(pid: number): void {
    try {
      rmSync(this.#file(pid), { force: true, recursive: true });
    } catch {
      // The next server tries again.
    }
  }

  #file(pid: number): string {
    return join(this.#dataDir, `${FILE}${pid}`);
  }

  get #log(): string {
    return join(this.#dataDir, "log.db");
  }
}

function readWords(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  } catch {
    return [];
  }
}
