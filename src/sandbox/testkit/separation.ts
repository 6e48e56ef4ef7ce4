import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { spawnScript, waitFor, withSandbox, type Suite } from "./suite.ts";

/** What a process knows of the server and of other sandboxes. */
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
    "two sandboxes see neither each other's files nor processes nor ports",
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
