import { getPriority } from "node:os";
import { expect, it } from "vitest";
import { NICENESS } from "../../src/sandbox/host/start.ts";
import type { Sandbox } from "../../src/sandbox/port.ts";
import { describeBwrap, makeSandbox as makeBwrapSandbox } from "./bwrap-bench.ts";
import { makeSandbox as makeLocalSandbox } from "./workbench.ts";

/** The niceness that a program in the sandbox reports. */
async function nicenessIn(sandbox: Sandbox): Promise<number> {
  return Number((await sandbox.exec("nice")).stdout);
}

const behindUs = Math.min(19, getPriority() + NICENESS);

it("a process in a local sandbox has a lower priority than the server", async () => {
  const { sandbox } = await makeLocalSandbox();
  await expect.poll(() => nicenessIn(sandbox), { timeout: 10_000 }).toBe(behindUs);
});

describeBwrap("niceness under bwrap", () => {
  it("a process there has a lower priority than the server", async () => {
    const { sandbox } = await makeBwrapSandbox();
    await expect.poll(() => nicenessIn(sandbox), { timeout: 10_000 }).toBe(behindUs);
  });
});
