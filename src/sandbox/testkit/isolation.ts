import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { spawnScript, waitFor, withSandbox, type Suite } from "./suite.ts";

/** The separation of a sandbox from the server and from other sandboxes. */
export function separation(suite: Suite): void {
  suite.it("a process has no variable of the server's", async (subject) => {
    process.env["SLUICE_TESTKIT_SECRET"] = "hunter2";
    try {
      await withSandbox(subject, { env: { FROM_SPEC: "1" } }, async (sandbox) => {
        await spawnScript(sandbox, "env > env", { env: { FROM_LAUNCH: "2" } });
        const lines = (await sandbox.exec("cat env; env")).stdout;
        assert.doesNotMatch(lines, /hunter2/);
        assert.match(lines, /^FROM_SPEC=1$/m);
        assert.match(lines, /^FROM_LAUNCH=2$/m);
        assert.match(lines, new RegExp(`^HOME=${sandbox.paths.home}$`, "m"));
      });
    } finally {
      delete process.env["SLUICE_TESTKIT_SECRET"];
    }
  });

  suite.it("killAll of one sandbox leaves another one alone", async (subject) => {
    await withSandbox(subject, { id: "one" }, async (one) => {
      await withSandbox(subject, { id: "two" }, async (two) => {
        await spawnScript(one, "(while :; do echo x >> ticks; sleep 0.01; done) &");
        await spawnScript(two, ":");
        await two.killAll();
        const size = async (): Promise<number> => (await one.files.stat("ticks")).size;
        const before = await size();
        await waitFor(async () => (await size()) > before);
      });
    });
  });

  suite.it(
    "two sandboxes see neither each other's files nor processes",
    async (subject) => {
      await withSandbox(subject, { id: "one" }, async (one) => {
        await withSandbox(subject, { id: "two" }, async (two) => {
          await one.files.write("secret-of-one.txt", "x");
          await one.files.write("/home/user/secret-of-one.txt", "x");
          await one.exec("echo > /tmp/secret-of-one.txt");
          await spawnScript(one, "sleep 31415 &");
          const look =
            "find / -name 'secret-of-one*' -not -path '/proc/*' 2> /dev/null; cat /proc/[0-9]*/cmdline | tr '\\0' ' '";
          const { stdout } = await two.exec(look);
          assert.doesNotMatch(stdout, /secret-of-one\.txt/);
          assert.doesNotMatch(stdout, /31415/);
        });
      });
    },
    "isolation",
  );

  suite.it("destroy leaves no process", async (subject) => {
    await withSandbox(subject, {}, async (sandbox) => {
      await spawnScript(sandbox, "setsid sleep 31416 &\nsleep 31416 &");
      await sandbox.host?.(38_472);
      await sandbox.destroy();
      await waitFor(async () => (await commandLines()).every((line) => !line.includes("31416")));
    });
  });
}

async function commandLines(): Promise<string[]> {
  const names = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  return Promise.all(names.map((name) => readFile(`/proc/${name}/cmdline`, "utf8").catch(() => "")));
}

const MB = 1024 * 1024;

/** The limits of a sandbox, and their verdicts. */
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
        const uptime = "cut -d' ' -f1 /proc/uptime";
        const spin = "i=0; while [ $i -lt 600000 ]; do i=$((i + 1)); done";
        // In a pipe, `times` would be that of a new shell. Its first line is the shell's own time, user and system.
        const { stdout } = await sandbox.exec(`${uptime}; ${spin}; times; ${uptime}`);
        const lines = stdout.trim().split("\n");
        const wall = Number(lines.at(-1)) - Number(lines[0]);
        const used = toSeconds(lines[1] ?? "") + toSeconds(lines[1] ?? "", 1);
        assert.ok(used > 0, `no processor time in ${JSON.stringify(stdout)}`);
        assert.ok(used < wall * 0.6, `${used} s of processor time in ${wall} s`);
      });
    },
    "cpus",
  );

  suite.it(
    "a process that fills the disk is ended, and the verdict says why",
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

/** Reads the output of the shell's `times`, such as `0m1.230s 0m0.010s`. */
function toSeconds(text: string, index = 0): number {
  const [, minutes = "0", seconds = "0"] = /^(\d+)m([\d.]+)s$/.exec(text.split(" ")[index] ?? "") ?? [];
  return Number(minutes) * 60 + Number(seconds);
}
