import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as letOthersRun } from "node:timers/promises";
import { expect, it } from "vitest";
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
