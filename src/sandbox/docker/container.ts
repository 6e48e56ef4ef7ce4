import type { ContainerCreateOptions, ContainerInspectInfo } from "dockerode";
import { SluiceError } from "../../contract/index.ts";
import type { ContainerEngine } from "./engine.ts";
import { covers, fromRequirementLabels, NOTHING, union, type Requirements } from "./requirements.ts";

const PATIENCE_MS = 10_000;
const LEAVING_MS = 1_000;
/** What there is in a container that does nothing: who has ended, its init, its sleeper, the near end of its bridge. */
const OWN = /<defunct>|docker-init|catatonit|podman-init|\btini\b|tail -f \/dev\/null|\/run\/sluice-bridge\//;

export interface ContainerPlan {
  readonly name: string;
  /** Makes what it mounts, and says what it shall be. */
  plan(requirements: Requirements): Promise<ContainerCreateOptions>;
  /** What has to be done in it each time that it has been started. */
  onStarted(id: string, requirements: Requirements): Promise<void>;
}

/** The container of one sandbox: made and started when somebody needs it, made anew when more is needed of it. */
export class Container {
  readonly #engine: ContainerEngine;
  readonly #plan: ContainerPlan;
  #last: Promise<unknown> = Promise.resolve();

  constructor(engine: ContainerEngine, plan: ContainerPlan) {
    this.#engine = engine;
    this.#plan = plan;
  }

  /** Answers the id of the container once it runs and has what is required. */
  ensure(required: Requirements): Promise<{ id: string; requirements: Requirements }> {
    return this.#exclusive(async () => {
      const found = await this.#find();
      if (found?.State.Paused) throw isPaused();
      const has = found === undefined ? NOTHING : fromRequirementLabels(found.Config.Labels);
      const requirements = union(has, required);
      const isEnough = found !== undefined && covers(has, required);
      if (isEnough && found.State.Running) return { id: found.Id, requirements };
      if (found !== undefined && !isEnough) await this.#replace(found, requirements);
      const id = isEnough ? found.Id : await this.#create(requirements);
      if (isEnough) await this.#plan.plan(requirements);
      await this.#engine.with((docker) => docker.getContainer(id).start());
      await this.#plan.onStarted(id, requirements);
      return { id, requirements };
    });
  }

  /** The container if it runs, with the pid of its first process as the engine's host sees it. */
  async running(): Promise<{ id: string; pid: number } | undefined> {
    const found = await this.#find();
    return found?.State.Running ? { id: found.Id, pid: found.State.Pid } : undefined;
  }

  /** Ends all that runs in it at once: with its first process the kernel ends every other. */
  kill(): Promise<void> {
    return this.#exclusive(async () => {
      const deadline = performance.now() + PATIENCE_MS;
      for (let pause = 1; ; pause = Math.min(pause * 2, 50)) {
        const found = await this.#find();
        if (!found?.State.Running) return;
        if (performance.now() > deadline) throw notEnded(found);
        await this.#engine.find((docker) => docker.getContainer(found.Id).kill().catch(notRunning));
        await new Promise((resolve) => setTimeout(resolve, pause));
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

  /** The command lines of all that runs in it. */
  async processes(id: string): Promise<string[]> {
    const top = await this.#engine.with((docker) => docker.getContainer(id).top() as Promise<Top>);
    return (top.Processes ?? []).map((row) => row.join(" "));
  }

  async #replace(found: ContainerInspectInfo, requirements: Requirements): Promise<void> {
    // What has just answered may still be on its way out.
    const deadline = performance.now() + LEAVING_MS;
    for (let others = await this.#others(found); others > 0; others = await this.#others(found)) {
      if (performance.now() > deadline) throw isBusy(requirements, others);
      await new Promise((resolve) => setTimeout(resolve, 25));
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

function notRunning(error: { statusCode?: number }): undefined {
  if (error.statusCode !== 409) throw error;
  return undefined;
}

function isPaused(): SluiceError {
  return new SluiceError("invalid_request", "The sandbox is paused. Resume it first.");
}

function isBusy(requirements: Requirements, count: number): SluiceError {
  const detail = `The container lacks something that it can only get when it is made anew, but ${count} processes run in it. End them first, or name what is needed in the provider's "mounts".`;
  return new SluiceError("session_busy", detail, { ...requirements });
}

function notEnded(found: ContainerInspectInfo): SluiceError {
  const detail = `After ${PATIENCE_MS / 1_000} seconds the container ${found.Id.slice(0, 12)} still runs. End it: docker rm --force ${found.Id.slice(0, 12)}`;
  return new SluiceError("internal", detail, { container: found.Id });
}
