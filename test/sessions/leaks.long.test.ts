import { readdirSync, readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { SandboxFolder } from "../../src/sandbox/host/folder.ts";
import {
  ofType,
  openEngine,
  processesWith,
  readAll,
  runTurn,
  script,
  SCRIPTED,
  type TestEngine,
} from "../support/engine.ts";

const SESSIONS = 200;
const AT_ONCE = 8;

/** The names of the processes and cgroups of the sandboxes. */
const keys: string[] = [];
let test: TestEngine;
beforeAll(async () => {
  test = await openEngine();
});
afterAll(() => test.close());

it(
  `${SESSIONS} sessions leave no process, mount, cgroup, socket, descriptor or folder behind`,
  { timeout: 300_000 },
  async () => {
    await Promise.all(Array.from({ length: AT_ONCE }, (_, index) => live(`warm-${index}`)));
    const before = await count();
    for (let first = 0; first < SESSIONS; first += AT_ONCE) {
      await Promise.all(Array.from({ length: AT_ONCE }, (_, index) => live(`s-${first + index}`)));
    }
    // Background work of the last session closes a moment later.
    await expect.poll(count, { timeout: 20_000 }).toEqual(before);
    expect(await processesWith(test.folder)).toEqual([]);
  },
);

/** A whole life: a turn with a child that tries to survive, then one of the ways to end. */
async function live(id: string): Promise<void> {
  await test.engine.create(id, SCRIPTED);
  await runTurn(
    test,
    id,
    script({ shell: "setsid sleep 1234 & echo on" }, { write: { path: "a", content: "a" } }),
  );
  const [boot] = ofType(await readAll(test.log, id), "sandbox.boot");
  const folder = await SandboxFolder.at(join(test.folder, "sandboxes"), boot?.data.sandbox_id ?? "");
  keys.push(folder.key);
  if (id.endsWith("1")) await test.engine.terminate(id);
  await test.engine.remove(id);
}

/** The resources of this engine. Others may run beside it, so only those with its folder's name count. */
async function count(): Promise<Record<string, number>> {
  const lines = (file: string): number =>
    readFileSync(file, "utf8")
      .split("\n")
      .filter((line) => line.includes(test.folder)).length;
  const folders = await Promise.all(
    ["sandboxes", "spools"].map((name) => readdir(join(test.folder, name)).catch(() => [])),
  );
  return {
    mounts: lines("/proc/self/mountinfo"),
    sockets: lines("/proc/net/unix"),
    folders: folders.flat().length,
    cgroups: cgroups().filter((path) => keys.some((key) => path.includes(key))).length,
    descriptors: readdirSync("/proc/self/fd").length,
    processes: (await processesWith(test.folder)).length,
    children: readdirSync("/proc/self/task")
      .flatMap((task) => readFileSync(`/proc/self/task/${task}/children`, "utf8").trim().split(" "))
      .filter(Boolean).length,
  };
}

function cgroups(): string[] {
  const found: string[] = [];
  const walk = (folder: string): void => {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      if (!entry.isDirectory()) continue;
      found.push(join(folder, entry.name));
      walk(join(folder, entry.name));
    }
  };
  walk("/sys/fs/cgroup");
  return found;
}
