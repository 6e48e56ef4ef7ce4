import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { findExecutable } from "../harness/scripted/executable.ts";
import { processName } from "./owner.ts";

/** How long idle agents may live without a server. */
export const DEFAULT_ORPHAN_MS = 900_000;

/**
 * Waits until the server's process is gone, then for the time that another one may take to come, then runs the program:
 * again after each such time, as long as it says that a turn still runs. Without its log there is nothing to care for.
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
    const program = join(dirname(findExecutable().path), "caretaker.js");
    if (this.#watch !== undefined || this.#afterMs === 0 || !existsSync(program)) return;
    this.#endFormer();
    const [pid = "", start = "?"] = processName().split("@");
    const seconds = this.#afterMs / 1_000;
    const times = [Math.min(LOOK_SECONDS, seconds), seconds].map(String);
    const words = [pid, start, ...times, this.#log];
    const argv = ["-c", SCRIPT, NAME, ...words, process.execPath, program, this.#dataDir];
    const watch = spawn("/bin/sh", argv, { cwd: "/", detached: true, stdio: "ignore" });
    // Without it agents live longer than they should; that is no reason to start none.
    watch.on("error", () => {});
    watch.unref();
    this.#watch = watch;
    if (watch.pid !== undefined) writeFileSync(this.#file, `${watch.pid}\n`, { mode: 0o600 });
  }

  /** Nothing is left that it would have to end. */
  async end(): Promise<void> {
    const watch = this.#watch;
    this.#watch = undefined;
    this.#endFormer();
    if (watch?.pid === undefined || watch.exitCode !== null || watch.signalCode !== null) return;
    watch.ref();
    await once(watch, "exit");
  }

  /** The last watch of this folder, our own or one that a killed server left: whoever is here now sees to its sessions. */
  #endFormer(): void {
    try {
      const pid = Number(readFileSync(this.#file, "utf8"));
      rmSync(this.#file);
      const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
      // With the sleep that it waits for; the pid may be another's by now.
      if (words.includes(NAME) && words.includes(this.#log)) process.kill(-pid, "SIGKILL");
    } catch {
      // There was none, or it has ended.
    }
  }

  get #file(): string {
    return join(this.#dataDir, "caretaker");
  }

  get #log(): string {
    return join(this.#dataDir, "log.db");
  }
}
