import type { HostConfig } from "dockerode";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { ControllerPaths } from "../host/controllers.ts";
import type { SandboxLimits } from "../port.ts";
import type { EngineFacts } from "./engine.ts";

/** Without a bound of its own, one fork bomb or one leak would take the machine with it. */
export function withDefaults(limits: SandboxLimits | undefined, facts: EngineFacts): SandboxLimits {
  const memoryBytes = Math.floor(facts.memoryBytes * 0.75);
  return { processes: 4_096, ...(memoryBytes > 0 ? { memoryBytes } : {}), ...limits };
}

/** Where the engine's limits of a container are counted, if that can be seen from here. */
export async function findControllers(pid: number): Promise<ControllerPaths> {
  const text = await readFile(`/proc/${pid}/cgroup`, "utf8").catch(() => "");
  const groups = text.split("\n").map((line) => /^\d+:([^:]*):(.*)$/.exec(line));
  const pathOf = (name: string): string[] =>
    groups
      .filter((group) => group?.[1]?.split(",").includes(name) || group?.[1] === "")
      // The controllers of version 1 are mounted by name, the one group of version 2 is not.
      .map((group) => join("/sys/fs/cgroup", group?.[1] === "" ? "" : name, group?.[2] ?? ""));
  const find = (name: string, file: string): string | undefined =>
    pathOf(name).find((path) => existsSync(join(path, file)));
  const memory = find("memory", "memory.events") ?? find("memory", "memory.oom_control");
  const pids = find("pids", "pids.events");
  return { ...(memory === undefined ? {} : { memory }), ...(pids === undefined ? {} : { pids }) };
}

export function toLimitConfig(limits: SandboxLimits, facts: EngineFacts): Partial<HostConfig> {
  const { memoryBytes, processes, cpus } = limits;
  return {
    // As much with swap as without: no swap.
    ...(memoryBytes !== undefined && facts.limits.memory
      ? { Memory: memoryBytes, MemorySwap: memoryBytes }
      : {}),
    ...(processes !== undefined && facts.limits.processes ? { PidsLimit: processes } : {}),
    ...(cpus !== undefined && facts.limits.cpus ? { NanoCpus: Math.round(cpus * 1e9) } : {}),
  };
}

/** What was asked for and this engine cannot hold anybody to. */
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
