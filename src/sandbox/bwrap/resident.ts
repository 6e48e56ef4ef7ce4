import { execFile, type ChildProcess } from "node:child_process";
import { closeSync, constants, openSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { rm } from "../../disk/sync-files.ts";
import { isAlive, readProcess, type ProcessIdentity } from "../host/processes/procfs.ts";

/**
 * A resident is a process that serves a sandbox for as long as a command runs in it: the network's holder, or the one
 * with the egress guest. This is its command. It prints `ready`, waits for the end of its stdin, which is the tie, and
 * kills its pid namespace. The pid 2 proves that the namespace is its own.
 */
export const RESIDENT_COMMAND = [
  "/bin/sh",
  "-c",
  "echo ready; exec >&- 2>&-; read -r _; [ $$ != 2 ] || kill -9 -1",
];

/** How long the last output of an ended resident may take. */
const LAST_WORDS_MS = 500;

/**
 * Waits until the resident prints `ready`. Fails with its output when it ends before that. Another process of
 * the sandbox may keep the resident's streams open, so its exit counts as well as their end.
 */
export async function awaitReady(child: ChildProcess): Promise<void> {
  let output = "";
  await new Promise<void>((resolve, reject) => {
    const fail = (): void => reject(new Error(output.trim() || "it ended at once"));
    child.stderr?.on("data", (chunk: Buffer) => (output += chunk.toString("utf8")));
    child.stdout?.on("data", (chunk: Buffer) => {
      output += chunk.toString("utf8");
      if (/^ready$/m.test(output)) resolve();
    });
    child.once("close", fail);
    child.once("exit", () => setTimeout(fail, LAST_WORDS_MS));
  }).finally(() => {
    child.stdout?.destroy();
    child.stderr?.destroy();
    child.unref();
  });
}

const { O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY } = constants;
const run = promisify(execFile);

/**
 * The FIFO between the commands of a sandbox and its residents. Every command holds the writing end open, every resident
 * reads. After the last command the kernel ends the read, and the residents end, even when no server runs.
 */
export class Tie {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  /** Makes a new FIFO, and opens its writing end. */
  async make(): Promise<number> {
    await rm(this.#path, { force: true });
    await run("mkfifo", ["-m", "600", this.#path], { env: { PATH: "/usr/bin:/bin" } });
    // A writing end opens without blocking only while a reader is there.
    const both = openSync(this.#path, O_RDWR | O_NONBLOCK);
    try {
      return openSync(this.#path, O_WRONLY | O_NONBLOCK);
    } finally {
      closeSync(both);
    }
  }

  /** Opens the reading end for a resident. Blocks unless the writing end is open. */
  openReader(): number {
    return openSync(this.#path, O_RDONLY);
  }

  /** Opens the writing end, which keeps a waiting resident alive; undefined where the resident ends already. */
  async hold(waiting: ProcessIdentity): Promise<number | undefined> {
    const fd = this.#openWriter();
    if (fd === undefined) return undefined;
    // A sleeping resident still waits, and the open end keeps it waiting. A running one may be about to exit.
    for (let tries = 0; tries < 100 && (await isAlive(waiting)); tries++) {
      if ((await readProcess(waiting.pid))?.state !== "R") return fd;
      await sleep(1);
    }
    closeSync(fd);
    return undefined;
  }

  #openWriter(): number | undefined {
    try {
      return openSync(this.#path, O_WRONLY | O_NONBLOCK);
    } catch {
      // No resident reads.
      return undefined;
    }
  }
}
