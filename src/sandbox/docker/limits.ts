import { existsSync } from "node:fs";
import { join } from "node:path";
import type { HostConfig } from "dockerode";
import { parseGroups } from "../host/processes/cgroup.ts";
import type { ControllerPaths } from "../host/processes/controllers.ts";
import { readProcFile } from "../host/processes/procfs.ts";
import type { SandboxLimits } from "../port.ts";
import type { EngineFacts } from "./engine.ts";

/** Adds default limits: without any, one fork bomb or leak would take down the machine. */
export function withDefaults(limits: SandboxLimits | undefined, facts: EngineFacts): SandboxLimits {
  const memoryBytes = Math.floor(facts.memoryBytes * 0.75);
  return { processes: 4_096, ...(memoryBytes > 0 ? { memoryBytes } : {}), ...limits };
}

/** The control groups that count a container's use, if this host shows them. */
export async function findControllers(pid: number): Promise<ControllerPaths> {
  const text = (await readProcFile(`/proc/${pid}/cgroup`).catch(() => undefined)) ?? "";
  const pathsOf = (name: string): string[] =>
    parseGroups(text)
      .filter(({ controllers }) => controllers.includes(name) || controllers.length === 0)
      // Version 1 mounts each controller under its name. Version 2 has one group for all, which lists no controllers.
      .map(({ controllers, path }) => join("/sys/fs/cgroup", controllers.length === 0 ? "" : name, path));
  const find = (name: string, file: string): string | undefined =>
    pathsOf(name).find((path) => existsSync(join(path, file)));
  const memory = find("memory", "memory.events") ?? find("memory", "memory.oom_control");
  const pids = find("pids", "pids.events");
  return { ...(memory === undefined ? {} : { memory }), ...(pids === undefined ? {} : { pids }) };
}

export function toLimitConfig(limits: SandboxLimits, facts: EngineFacts): Partial<HostConfig> {
  const { memoryBytes, processes, cpus } = limits;
  return {
    // MemorySwap is the sum of memory and swap, so this allows no swap.
    ...(memoryBytes !== undefined && facts.limits.memory
      ? { Memory: memoryBytes, MemorySwap: memoryBytes }
      : {}),
    ...(processes !== undefined && facts.limits.processes ? { PidsLimit: processes } : {}),
    ...(cpus !== undefined && facts.limits.cpus ? { NanoCpus: Math.round(cpus * 1e9) } : {}),
  };
}

/** Requested limits that this engine cannot enforce. */
export function toLimitShortcomings(limits: SandboxLimits | undefined, facts: EngineFacts): string[] {
  const lacks: [unknown, boolean, string][] = [
    [limits?.memoryBytes, facts.limits.memory, "memory"],
    [limits?.processes, facts.limits.processes, "processes"],
    [limits?.cpus, facts.limits.cpus, "CPU time"],
  ];
  return lacks
    .filter(([asked, enforced]) => asked !== undefined && !enforced)
    .map(([, , what]) => `The limit on ${what} is not enforced by this container engine.`);
}
