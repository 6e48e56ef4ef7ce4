import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { ContainerCreateOptions, ContainerInspectInfo } from "dockerode";
import { SluiceError } from "../../contract/index.ts";
import { PROGRAM_FOLDER } from "../egress/protocol.ts";
import type { ContainerEngine } from "./engine.ts";

const PATIENCE_MS = 10_000;
const LEAVING_MS = 1_000;
/** The processes of an idle container: zombies, its init, its sleeper, the egress guest. */
const OWN = new RegExp(
  `<defunct>|docker-init|catatonit|podman-init|\\btini\\b|tail -f /dev/null|${PROGRAM_FOLDER}/`,
);

interface ContainerPlan {
  readonly name: string;
  /** Makes the mounted folders, and returns the container's options. */
  plan(requirements: Requirements): Promise<ContainerCreateOptions>;
  onStarted(id: string, requirements: Requirements): Promise<void>;
}

/** The container of one sandbox: made and started on demand, and made anew when a command needs more. */
export class Container {
  readonly #engine: ContainerEngine;
  readonly #plan: ContainerPlan;
  #last: Promise<unknown> = Promise.resolve();

  constructor(engine: ContainerEngine, plan: ContainerPlan) {
    this.#engine = engine;
    this.#plan = plan;
  }

  /** Makes and starts the container where that is needed; returns when it runs and meets the requirements. */
  ensure(required: Requirements): Promise<{ id: string; requirements: Requirements }> {
    return this.#exclusive(async () => {
      const found = await this.#find();
      if (found?.State.Paused)
        throw new SluiceError("invalid_request", "The sandbox is paused. Resume it first.");
      const has = found === undefined ? NO_REQUIREMENTS : fromRequirementLabels(found.Config.Labels);
      // Missing files are left out: those of an uninstalled version may be gone, and no container starts with a missing
      // mount.
      const needs = has.needs.filter((path) => existsSync(path));
      const requirements = union({ ...has, needs }, required);
      const isEnough = found !== undefined && covers(has, required);
      if (isEnough && found.State.Running) return { id: found.Id, requirements };
      if (found !== undefined && !isEnough) await this.#replace(found, requirements);
      const id = isEnough ? found.Id : await this.#create(requirements);
      // Makes the mounted folders again: an agent may have removed them.
      if (isEnough) await this.#plan.plan(requirements);
      await this.#engine.with((docker) => docker.getContainer(id).start());
      await this.#plan.onStarted(id, requirements);
      return { id, requirements };
    });
  }

  /** The running container, with the host's pid of its first process; undefined where it does not run. */
  async running(): Promise<{ id: string; pid: number } | undefined> {
    const found = await this.#find();
    return found?.State.Running ? { id: found.Id, pid: found.State.Pid } : undefined;
  }

  /** Kills every process in the container: when its first process ends, the kernel ends the others. */
  kill(): Promise<void> {
    return this.#exclusive(async () => {
      const deadline = performance.now() + PATIENCE_MS;
      for (let pause = 1; ; pause = Math.min(pause * 2, 50)) {
        const found = await this.#find();
        if (!found?.State.Running) return;
        if (performance.now() > deadline) throw notEndedError(found);
        await this.#engine.find((docker) => docker.getContainer(found.Id).kill().catch(ignoreNotRunning));
        await sleep(pause);
      }
    });
  }

  async pause(): Promise<void> {
    const found = await this.#find();
    if (!found?.State.Running || found.State.Paused) return;
    await this.#engine.with((docker) => docker.getContainer(found.Id).pause());
  }

  async resume(): Promise<void> {
    const found = await this.#find();
    if (found?.State.Paused) await this.#engine.with((docker) => docker.getContainer(found.Id).unpause());
  }

  remove(): Promise<void> {
    return this.#exclusive(async () => {
      const found = await this.#find();
      if (found !== undefined) await this.#remove(found.Id);
    });
  }

  /** The command lines of its processes. */
  async processes(id: string): Promise<string[]> {
    const top = await this.#engine.with((docker) => docker.getContainer(id).top() as Promise<Top>);
    return (top.Processes ?? []).map((row) => row.join(" "));
  }

  async #replace(found: ContainerInspectInfo, requirements: Requirements): Promise<void> {
    // A command that has just returned may still be ending.
    const deadline = performance.now() + LEAVING_MS;
    for (let others = await this.#others(found); others > 0; others = await this.#others(found)) {
      if (performance.now() > deadline) throw busyError(requirements, others);
      await sleep(25);
    }
    await this.#remove(found.Id);
  }

  async #others(found: ContainerInspectInfo): Promise<number> {
    if (!found.State.Running) return 0;
    return (await this.processes(found.Id)).filter((row) => !OWN.test(row)).length;
  }

  async #create(requirements: Requirements): Promise<string> {
    const options = { ...(await this.#plan.plan(requirements)), name: this.#plan.name };
    return (await this.#engine.with((docker) => docker.createContainer(options))).id;
  }

  async #remove(id: string): Promise<void> {
    await this.#engine.find((docker) => docker.getContainer(id).remove({ force: true, v: true }));
  }

  #find(): Promise<ContainerInspectInfo | undefined> {
    return this.#engine.find((docker) => docker.getContainer(this.#plan.name).inspect());
  }

  #exclusive<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work, work);
    this.#last = done.catch(() => {});
    return done;
  }
}

interface Top {
  readonly Processes: readonly (readonly string[])[] | null;
}

function ignoreNotRunning(error: { statusCode?: number }): undefined {
  if (error.statusCode !== 409) throw error;
  return undefined;
}

function busyError(requirements: Requirements, count: number): SluiceError {
  const detail = `The container lacks a mount or a host, and only a new container can have it, but ${count} processes run in this one. End them first, or add the missing path to the provider's "mounts".`;
  return new SluiceError("session_busy", detail, { ...requirements });
}

function notEndedError(found: ContainerInspectInfo): SluiceError {
  const detail = `After ${PATIENCE_MS / 1_000} seconds the container ${found.Id.slice(0, 12)} still runs. End it: docker rm --force ${found.Id.slice(0, 12)}`;
  return new SluiceError("internal", detail, { container: found.Id });
}

/**
 * The needs of a container beyond its image. They are fixed at its creation, so a further need takes a new container
 * with all needs so far.
 */
export interface Requirements {
  /** Host files and folders, seen at the same paths, read-only. */
  readonly needs: readonly string[];
  /** Hosts that the egress proxy allows. */
  readonly hosts: readonly string[];
}

const LABEL = "sluice.requirements";

export const NO_REQUIREMENTS: Requirements = { needs: [], hosts: [] };

function union(one: Requirements, other: Requirements): Requirements {
  return {
    needs: [...new Set([...one.needs, ...other.needs])].sort(),
    hosts: [...new Set([...one.hosts, ...other.hosts])].sort(),
  };
}

function covers(one: Requirements, other: Requirements): boolean {
  return isSubset(other.needs, one.needs) && isSubset(other.hosts, one.hosts);
}

function isSubset(part: readonly string[], whole: readonly string[]): boolean {
  return new Set([...whole, ...part]).size === new Set(whole).size;
}

export function toRequirementLabels(requirements: Requirements): Record<string, string> {
  return { [LABEL]: JSON.stringify(requirements) };
}

function fromRequirementLabels(labels: Readonly<Record<string, string>>): Requirements {
  return JSON.parse(labels[LABEL] ?? JSON.stringify(NO_REQUIREMENTS)) as Requirements;
}
