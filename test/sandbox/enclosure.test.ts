import { access, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setImmediate as letOthersRun } from "node:timers/promises";
import { expect, it, vi } from "vitest";
import { Cgroup, findEmptyGroups, sweepGroups } from "../../src/sandbox/host/processes/cgroup.ts";
import { Enclosure } from "../../src/sandbox/host/processes/enclosure.ts";
import { SandboxFolder, type SandboxRecord } from "../../src/sandbox/host/folder.ts";

it("many concurrent starts get the same entry into the sandbox", async () => {
  const root = await mkdtemp(join(tmpdir(), "sluice-enclosure-"));
  const folder = await SandboxFolder.at(root, "s");
  const groups = await Enclosure.locate(folder.key, undefined);
  const record: SandboxRecord = { version: 1, id: "s", provider: "bwrap", ...groups };
  await folder.make(record);
  const enclosure = new Enclosure(folder, record);
  try {
    const prefixes: Promise<readonly string[]>[] = [];
    // Some come while the first are being shown that it works, some behind them.
    for (let rounds = 0; rounds < 200; rounds++) {
      prefixes.push(enclosure.prefix());
      await letOthersRun();
    }
    const [first, ...others] = await Promise.all(prefixes);
    expect(Array.isArray(first)).toBe(true);
    for (const other of others) expect(other).toEqual(first);
  } finally {
    await enclosure.kill();
    await rm(root, { recursive: true, force: true });
  }
});

it("a group that another server has just made stays, also for a server whose clock is wrong", async (context) => {
  const made = await Cgroup.locate(`sluice-${"ab".repeat(10)}`);
  if (made === undefined) return context.skip("this user may make no control group");
  await made.make();
  try {
    vi.resetModules();
    vi.spyOn(Date, "now").mockReturnValue(Date.now() + 36_000_000);
    const other = await import("../../src/sandbox/host/processes/cgroup.ts");
    await other.Cgroup.locate(`sluice-${"cd".repeat(10)}`);
    await expect(access(made.path)).resolves.toBeUndefined();
  } finally {
    vi.restoreAllMocks();
    await made.remove();
  }
});

it("a group that a dead server left is removed, unless it was made again", async (context) => {
  const [left, again] = await Promise.all(
    ["ef", "01"].map((name) => Cgroup.locate(`sluice-${name.repeat(10)}`)),
  );
  if (left === undefined || again === undefined) return context.skip("this user may make no control group");
  await left.make();
  await again.make();
  const parent = dirname(left.path);
  const before = new Map(
    [...(await findEmptyGroups(parent))].filter(([path]) => [left, again].some((one) => one.path === path)),
  );
  expect(before.size).toBe(2);
  await again.remove();
  await again.make();
  try {
    await sweepGroups(parent, before);
    await expect(access(left.path)).rejects.toThrow("ENOENT");
    await expect(access(again.path)).resolves.toBeUndefined();
  } finally {
    await again.remove();
  }
});
