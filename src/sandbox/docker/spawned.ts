import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { SluiceError } from "../../contract/index.ts";
import { startProgram, type toStdio } from "../host/start.ts";
import type { EngineAddress } from "./engine.ts";
import { readReport, writeTicket, type ExecReport, type ExecSpec } from "./exec/api.ts";

const PATIENCE_MS = 60_000;

/** The start of an agent in a container. */
export interface AgentExec {
  readonly spec: ExecSpec;
  /** The first line of its stdin. */
  readonly order?: string;
  /** The agent's program, for the error when it is missing. */
  readonly program: string;
}

/** The programs on this host that outlive the server, each with the stdio of one agent in the container. */
export class Spawned {
  readonly #folder: string;
  readonly #address: EngineAddress;
  readonly #program: string;

  constructor(options: { folder: string; address: EngineAddress; program: string }) {
    this.#folder = options.folder;
    this.#address = options.address;
    this.#program = options.program;
  }

  /** Starts the wrapper on this host, and through it an agent. Returns the wrapper's pid when the agent runs. */
  async start(
    { spec, order, program }: AgentExec,
    outside: {
      before: readonly string[];
      env: Readonly<Record<string, string>>;
      stdio: ReturnType<typeof toStdio>;
    },
  ): Promise<number> {
    if (!existsSync(this.#program)) {
      throw new SluiceError("internal", `${this.#program} is missing; build it: npm run build`);
    }
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const ticket = {
      id: randomUUID(),
      address: this.#address,
      spec,
      ...(order === undefined ? {} : { order }),
    };
    const file = await writeTicket(this.#folder, ticket);
    const argv = [...outside.before, process.execPath, this.#program, file];
    const child = await startProgram(argv, { cwd: this.#folder, env: outside.env, stdio: outside.stdio });
    child.unref();
    const pid = child.pid as number;
    const isOver = (): boolean => child.exitCode !== null || child.signalCode !== null;
    const report = await this.#await(pid, ticket.id, isOver);
    if (report.pid !== undefined) return pid;
    await rm(file, { force: true });
    throw toStartError(program, report);
  }

  /** The pid in the container of the agent whose wrapper has this pid on this host. */
  async inside(pid: number): Promise<number | undefined> {
    return (await readReport(this.#folder, pid))?.pid;
  }

  /** Removes all tickets and reports; to be called when no agent is left. */
  async forget(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
  }

  async #await(pid: number, ticket: string, isOver: () => boolean): Promise<ExecReport> {
    const deadline = performance.now() + PATIENCE_MS;
    for (let pause = 2; performance.now() < deadline; pause = Math.min(pause * 2, 20)) {
      // Read before the report, which a process may write just before its end.
      const wasOver = isOver();
      const report = await readReport(this.#folder, pid);
      if (report?.ticket === ticket) return report;
      if (wasOver) return { ticket, error: "its connection to the container ended at once" };
      await sleep(pause);
    }
    return { ticket, error: `it did not begin within ${PATIENCE_MS / 1_000} seconds` };
  }
}

function toStartError(program: string, report: ExecReport): SluiceError {
  if (report.missing) {
    const detail = `The program ${program} is not in the image. Choose an image that has it, or name its host path in the provider's "mounts".`;
    return new SluiceError("agent_not_installed", detail, { program });
  }
  return new SluiceError("internal", `${program} could not be started in the container: ${report.error}.`, {
    program,
  });
}
