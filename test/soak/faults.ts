import { readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import type { TestServer } from "../support/server.ts";
import type { Chance } from "./chance.ts";

/** A process of this machine that belongs to the server under test, and what it is there. */
interface Found {
  readonly pid: number;
  readonly role: "agent" | "relay" | "bridge";
}

/** Every process that names the server's data folder or one of its sandboxes, but for the server and its tests. */
export async function findProcesses(server: Pick<TestServer, "data" | "pid">): Promise<Found[]> {
  const sandboxes = await readdir(join(server.data, "sandboxes")).catch(() => []);
  const names = [server.data, ...sandboxes.filter((name) => name.startsWith("sbx_"))];
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const found = await Promise.all(
    pids.filter((pid) => pid !== process.pid && pid !== server.pid).map((pid) => look(pid, names)),
  );
  return found.filter((one) => one !== undefined);
}

async function look(pid: number, names: readonly string[]): Promise<Found | undefined> {
  const read = (file: string): Promise<string> => readFile(`/proc/${pid}/${file}`, "utf8").catch(() => "");
  const [command, environment, cwd] = await Promise.all([
    read("cmdline"),
    read("environ"),
    readlink(`/proc/${pid}/cwd`).catch(() => ""),
  ]);
  const isOurs = names.some(
    (name) => command.includes(name) || environment.includes(name) || cwd.includes(name),
  );
  if (!isOurs || command.includes("cli/main.js") || command.includes("bin/sluice")) return undefined;
  if (command.includes("bridge-host")) return { pid, role: "bridge" };
  const isRelay = /^(\/\S*\/)?(tail|cat)\0/.test(command) || command.includes("/relay\0");
  return { pid, role: isRelay ? "relay" : "agent" };
}

/** Kills one process of a kind, if there is one. */
export async function killOne(server: TestServer, role: Found["role"], chance: Chance): Promise<boolean> {
  const found = (await findProcesses(server)).filter((one) => one.role === role);
  if (found.length === 0) return false;
  try {
    process.kill(chance.pick(found).pid, "SIGKILL");
    return true;
  } catch {
    return false;
  }
}
