import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../../support/server.ts";

/** A machine of an emulated vendor: a folder of this machine as its home, and real processes. */
export interface EmulatedMachine {
  readonly id: string;
  readonly home: string;
  /** The port of this machine that stands for the runner's. */
  readonly port: number;
  readonly metadata: Record<string, string>;
  /** The request that made it. */
  readonly request: Record<string, unknown>;
  state: "running" | "paused";
  /** How often it was started. */
  starts: number;
}

/** What all emulated vendors share. */
export class Machines {
  readonly #root: string;
  readonly #all = new Map<string, EmulatedMachine>();

  constructor(root: string) {
    this.#root = root;
  }

  all(): EmulatedMachine[] {
    return [...this.#all.values()];
  }

  get(id: string): EmulatedMachine | undefined {
    return this.#all.get(id);
  }

  async create(metadata: Record<string, string>, request: Record<string, unknown>): Promise<EmulatedMachine> {
    const id = `i${randomBytes(9).toString("hex")}`;
    const home = join(this.#root, id);
    mkdirSync(home, { recursive: true });
    const machine = {
      id,
      home,
      port: await freePort(),
      metadata,
      request,
      state: "running" as const,
      starts: 1,
    };
    this.#all.set(id, machine);
    return machine;
  }

  /** Ends all processes and removes the files. */
  async remove(id: string): Promise<void> {
    const machine = this.#all.get(id);
    this.#all.delete(id);
    if (!machine) return;
    await endProcesses(machine);
    rmSync(machine.home, { recursive: true, force: true, maxRetries: 5 });
  }

  pause(machine: EmulatedMachine): void {
    machine.state = "paused";
    for (const pid of pidsOf(machine)) tryKill(pid, "SIGSTOP");
  }

  /** Ends all processes, and keeps the files. */
  async stop(machine: EmulatedMachine): Promise<void> {
    machine.state = "paused";
    await endProcesses(machine);
  }

  resume(machine: EmulatedMachine): void {
    machine.state = "running";
    machine.starts += 1;
    for (const pid of pidsOf(machine)) tryKill(pid, "SIGCONT");
  }

  runners(machine: EmulatedMachine): number[] {
    return pidsOf(machine).filter((pid) => read(pid, "cmdline").includes("serve-edge"));
  }

  /** Starts a command in a login shell of the machine. */
  spawn(machine: EmulatedMachine, argv: readonly string[]): ReturnType<typeof spawn> {
    const [program = "/bin/sh", ...args] = argv;
    return spawn(program, args, {
      cwd: machine.home,
      env: {
        PATH: process.env["PATH"],
        HOME: machine.home,
        SLUICE_RUNNER_PORT: String(machine.port),
        EMULATED_MACHINE: machine.id,
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
  }

  write(_machine: EmulatedMachine, path: string, content: Buffer): void {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
  }

  async dispose(): Promise<void> {
    for (const { id } of this.all()) await this.remove(id);
  }
}

async function endProcesses(machine: EmulatedMachine): Promise<void> {
  for (let pids = pidsOf(machine); pids.length > 0; pids = pidsOf(machine)) {
    for (const pid of pids) tryKill(pid, "SIGKILL");
    await sleep(20);
  }
}

/** Processes whose environment, command line or folder names the machine. */
function pidsOf({ home, id }: EmulatedMachine): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((name) => {
      const pid = Number(name);
      if (read(pid, "stat").includes(") Z ")) return false;
      if (read(pid, "environ").includes(`EMULATED_MACHINE=${id}`)) return true;
      return read(pid, "cmdline").includes(home) || folderOf(pid).startsWith(home);
    })
    .map(Number);
}

/** The text of all processes' environments and command lines. */
export function processTexts(machine: EmulatedMachine): string {
  return pidsOf(machine)
    .map((pid) => `${read(pid, "environ")}\n${read(pid, "cmdline")}`)
    .join("\n");
}

function folderOf(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return "";
  }
}

function read(pid: number, name: string): string {
  try {
    return existsSync(`/proc/${pid}`) ? readFileSync(`/proc/${pid}/${name}`, "utf8") : "";
  } catch {
    return "";
  }
}

function tryKill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended.
  }
}
