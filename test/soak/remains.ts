import { readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import type { TestServer } from "../support/server.ts";
import { findProcesses } from "./processes.ts";

const PATIENCE = { timeout: 60_000, interval: 250 };

/** Undisturbed sessions leave a server with the same number of descriptors. */
export async function checkDescriptors(server: TestServer, use: () => Promise<void>): Promise<void> {
  await server.stop();
  await server.start();
  const count = async (): Promise<number> => (await readdir(`/proc/${server.pid}/fd`)).length;
  // The first session opens files that stay open.
  await use();
  const before = await count();
  await use();
  await expect.poll(count, { ...PATIENCE, message: "open descriptors" }).toBeLessThanOrEqual(before);
}

/** Each with its content, for the report of a finding. */
async function listWithin(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => []);
  return Promise.all(
    names.map(async (name) => `${name}: ${await readdir(join(folder, name)).catch(() => "no folder")}`),
  );
}

/** All sessions were deleted, and the server is stopped: no folder, process, mount or control group of them is there. */
export async function checkNothingLeft(server: TestServer, sandboxes: ReadonlySet<string>): Promise<void> {
  const { data } = server;
  const { sessions } = await server.client.sessions.list({ limit: 100 });
  expect(
    sessions.map(({ sessionId }) => sessionId),
    "sessions",
  ).toEqual([]);
  for (const folder of ["sandboxes", "spools"])
    await expect.poll(() => listWithin(join(data, folder)), { ...PATIENCE, message: folder }).toEqual([]);
  await server.stop();
  const left = async (): Promise<string[]> =>
    (await findProcesses({ data, pid: -1 })).map(({ pid, role, command }) => `${role} ${pid} ${command}`);
  await expect.poll(left, { ...PATIENCE, message: "processes" }).toEqual([]);
  expect(await readdir(join(data, "owners")).catch(() => []), "owners").toEqual([]);
  const mounts = readFileSync("/proc/self/mounts", "utf8").split("\n");
  expect(
    mounts.filter((line) => line.includes(data)),
    "mounts",
  ).toEqual([]);
  const groups = await readdir("/sys/fs/cgroup", { recursive: true }).catch(() => []);
  expect(
    groups.filter((path) => sandboxes.has(path.split("/").at(-1) ?? "")),
    "control groups",
  ).toEqual([]);
}
