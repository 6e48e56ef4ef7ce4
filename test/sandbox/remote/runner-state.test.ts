import { existsSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { RunnerSandboxes } from "../../../src/sandbox/runner/sandboxes.ts";

/** Two objects on one folder are two runners. */
describe("what a runner keeps on its disk", () => {
  const roots: string[] = [];
  const makeRoot = (): string => {
    const root = mkdtempSync(join(tmpdir(), "sluice-runner-"));
    roots.push(root);
    return root;
  };
  afterEach(async () => {
    for (const root of roots.splice(0)) await rm(root, { recursive: true, force: true });
  });

  it("a newer epoch holds for every runner, also after the sandbox was destroyed", async () => {
    const root = makeRoot();
    const [one, two] = [new RunnerSandboxes(root), new RunnerSandboxes(root)];
    one.admit("sbx_e", 1);
    two.admit("sbx_e", 2);
    expect(() => one.admit("sbx_e", 1)).toThrow("belongs to epoch 2");
    one.admit("sbx_e", 2);
    await one.create({ id: "sbx_e" });
    await one.destroy("sbx_e");
    expect(() => two.admit("sbx_e", 1)).toThrow("belongs to epoch 2");
    two.admit("sbx_other", 1);
  });

  it("an epoch that cannot be read admits nobody", () => {
    const root = makeRoot();
    // A build before this one kept it in this file.
    mkdirSync(join(root, "epochs", "sbx_folder"), { recursive: true });
    expect(() => new RunnerSandboxes(root).admit("sbx_folder", 1)).toThrow("EISDIR");
    writeFileSync(join(root, "epochs", "sbx_text"), "?");
    expect(() => new RunnerSandboxes(root).admit("sbx_text", 1)).toThrow("cannot be read");
    writeFileSync(join(root, "epochs", "sbx_old"), "7");
    expect(() => new RunnerSandboxes(root).admit("sbx_old", 6)).toThrow("belongs to epoch 7");
    new RunnerSandboxes(root).admit("sbx_old", 8);
  });

  it("a destruction that was cut off is completed by the next one", async () => {
    const root = makeRoot();
    const runner = new RunnerSandboxes(root);
    const launch = { argv: ["/bin/true"], env: {} };
    await runner.create({ id: "sbx_d" });
    await runner.start("sbx_d", { name: "1", launch, streams: "named" });
    // As a runner that was killed behind the first step leaves it.
    await (await runner.demand("sbx_d")).destroy();
    expect(existsSync(join(root, "spools", "sbx_d"))).toBe(true);
    await new RunnerSandboxes(root).destroy("sbx_d");
    expect(existsSync(join(root, "spools", "sbx_d"))).toBe(false);
  });

  it("a process that does not begin in time is reported, and never begins", async () => {
    const root = makeRoot();
    const runner = new RunnerSandboxes(root, { beginMs: 0 });
    await runner.create({ id: "sbx_s" });
    const launch = { argv: ["/bin/sh", "-c", "exec sleep 300"], env: {} };
    const process = { name: "1", launch, streams: "named" } as const;
    for (const _ of [1, 2])
      await expect(runner.start("sbx_s", process)).rejects.toMatchObject({ code: "timeout" });
    await expect(runner.spool("sbx_s", "1")).rejects.toMatchObject({ code: "not_found" });

    // A later try begins it once, whatever the earlier ones left.
    const later = new RunnerSandboxes(root);
    await later.start("sbx_s", process);
    expect(await (await later.spool("sbx_s", "1")).isAlive()).toBe(true);
    await later.destroy("sbx_s");
  });
});
