import assert from "node:assert/strict";
import { waitFor, withSandbox, type Suite } from "./suite.ts";

const MB = 1024 * 1024;

/** What a sandbox may take of the host, and the words that say so when it wanted more. */
export function limits(suite: Suite): void {
  suite.it(
    "a memory hog is ended, and the verdict says why",
    async (subject) => {
      await withSandbox(subject, { limits: { memoryBytes: 128 * MB } }, async (sandbox) => {
        assert.equal(await sandbox.verdict?.(), undefined);
        const hog = await sandbox.exec("head -c 400000000 /dev/zero | tail -c 400000000 | wc -c");
        assert.notEqual(hog.stdout.trim(), "400000000");
        assert.equal(await sandbox.verdict?.(), "out of memory: limit 128 MB");
        assert.equal((await sandbox.exec("echo alive")).stdout, "alive\n");
      });
    },
    "memory",
  );

  suite.it(
    "a fork bomb stays within its limit",
    async (subject) => {
      await withSandbox(subject, { limits: { processes: 60 } }, async (sandbox) => {
        const bomb = "i=0; while [ $i -lt 300 ]; do sleep 600 & i=$((i + 1)); done; wait";
        await sandbox.exec(bomb, { timeoutMs: 3_000 });
        await sandbox.killAll();
        assert.match((await sandbox.verdict?.()) ?? "", /too many processes: limit 60/);
        assert.equal((await sandbox.exec("echo alive")).stdout, "alive\n");
      });
    },
    "processes",
  );

  suite.it(
    "processor time is shared out",
    async (subject) => {
      await withSandbox(subject, { limits: { cpus: 0.2 } }, async (sandbox) => {
        const spin =
          "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; times | tail -n 1; cut -d' ' -f1 /proc/uptime";
        const script = `cut -d' ' -f1 /proc/uptime; (i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done); ${spin}`;
        const { stdout } = await sandbox.exec(script);
        const lines = stdout.trim().split("\n");
        const wall = Number(lines.at(-1)) - Number(lines[0]);
        const used = toSeconds(lines[1] ?? "") + toSeconds(lines[1] ?? "", 1);
        assert.ok(used < wall * 0.6, `${used} s of processor time in ${wall} s`);
      });
    },
    "cpus",
  );

  suite.it(
    "whoever fills the disk is ended, and the verdict says why",
    async (subject) => {
      await withSandbox(subject, { limits: { diskBytes: 20 * MB } }, async (sandbox) => {
        const fill = "i=0; while :; do head -c 1000000 /dev/zero > fill.$i; i=$((i + 1)); sleep 0.05; done";
        const result = await sandbox.exec(fill, { timeoutMs: 30_000 });
        assert.equal(result.timedOut, false);
        assert.equal(await waitFor(async () => sandbox.verdict?.()), "out of disk: limit 20 MB");
        assert.equal((await sandbox.exec("echo alive")).stdout, "alive\n");
      });
    },
    "disk",
  );
}

/** The shell's `times`: 0m1.230s 0m0.010s. */
function toSeconds(text: string, index = 0): number {
  const [, minutes = "0", seconds = "0"] = /^(\d+)m([\d.]+)s$/.exec(text.split(" ")[index] ?? "") ?? [];
  return Number(minutes) * 60 + Number(seconds);
}
