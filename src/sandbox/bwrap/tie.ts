import { execFile } from "node:child_process";
import { closeSync, constants, openSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { rm } from "../../disk/onTheSpot.ts";
import { readProcess } from "../host/procfs.ts";
import { isResident, type Resident } from "./resident.ts";

const { O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY } = constants;
const run = promisify(execFile);

/**
 * How the processes that only serve a sandbox learn that it is empty: each reads a FIFO of which every command holds
 * the other end, and ends when nobody does any more. No server has to be there for that.
 */
export class Tie {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  /** A new one, that nobody waits at: the end that a command gets. */
  async make(): Promise<number> {
    await rm(this.#path, { force: true });
    await run("mkfifo", ["-m", "600", this.#path], { env: { PATH: "/usr/bin:/bin" } });
    const both = openSync(this.#path, O_RDWR | O_NONBLOCK);
    try {
      return openSync(this.#path, O_WRONLY | O_NONBLOCK);
    } finally {
      closeSync(both);
    }
  }

  /** The end that whoever serves the sandbox waits at; somebody has to hold the other one. */
  read(): number {
    return openSync(this.#path, O_RDONLY);
  }

  /** The end that a command gets, if this resident still waits at its own; else it is too late. */
  async hold(waiting: Resident): Promise<number | undefined> {
    const fd = this.#open();
    if (fd === undefined) return undefined;
    // Now it cannot leave any more, unless it was about to: asleep, it waits for us.
    for (let tries = 0; tries < 100 && (await isResident(waiting)); tries++) {
      if ((await readProcess(waiting.pid))?.state !== "R") return fd;
      await sleep(1);
    }
    closeSync(fd);
    return undefined;
  }

  #open(): number | undefined {
    try {
      return openSync(this.#path, O_WRONLY | O_NONBLOCK);
    } catch {
      // Nobody waits at it.
      return undefined;
    }
  }
}
