import assert from "node:assert/strict";
import { failsWith, waitFor, withSandbox, type Suite } from "./suite.ts";

/** `exec`: what goes in, what comes out, and when it ends. */
export function commands(suite: Suite): void {
  suite.it("exec gives output, exit code and input", async (subject) => {
    await withSandbox(subject, {}, async (sandbox) => {
      assert.deepEqual(await sandbox.exec("cat; echo no >&2; exit 3", { input: "in" }), {
        exitCode: 3,
        stdout: "in",
        stderr: "no\n",
        timedOut: false,
      });
      const bytes = new Uint8Array([195, 164, 10]);
      assert.equal((await sandbox.exec("cat", { input: bytes })).stdout, "ä\n");
      assert.equal((await sandbox.exec("kill -9 $$")).exitCode, 137);
      assert.equal((await sandbox.exec("no-such-program")).exitCode, 127);
    });
  });

  suite.it(
    "exec runs in the workspace or in a folder of the sandbox, with the environment asked for",
    async (subject) => {
      await withSandbox(subject, { env: { A: "spec", B: "spec" } }, async (sandbox) => {
        assert.equal((await sandbox.exec("pwd")).stdout, `${sandbox.paths.workspace}\n`);
        await sandbox.files.mkdir("sub");
        const inSub = await sandbox.exec("basename $(pwd); echo $A $B $C", {
          cwd: "/workspace/sub",
          env: { B: "exec", C: "$x 'y'\n\"z\"" },
        });
        assert.equal(inSub.stdout, "sub\nspec exec $x 'y' \"z\"\n");
        await failsWith("permission_denied", sandbox.exec("true", { cwd: "/etc" }));
        await failsWith("permission_denied", sandbox.exec("true", { cwd: "../.." }));
        await failsWith("invalid_request", sandbox.exec("true", { cwd: "missing" }));
      });
    },
  );

  suite.it(
    "exec ends with its timeout or when it is aborted, and with all that it started",
    async (subject) => {
      await withSandbox(subject, {}, async (sandbox) => {
        const loop = "while :; do echo x >> ticks; sleep 0.01; done";
        const result = await sandbox.exec(`(${loop}) & wait`, { timeoutMs: 500 });
        assert.equal(result.timedOut, true);
        assert.equal(result.exitCode, 137);
        const size = async (): Promise<number> => (await sandbox.files.stat("ticks")).size;
        await waitFor(async () => {
          const before = await size();
          await new Promise((resolve) => setTimeout(resolve, 100));
          return (await size()) === before;
        });

        const abort = new AbortController();
        const aborted = sandbox.exec("echo > begun; sleep 600", { signal: abort.signal });
        await waitFor(() => sandbox.files.stat("begun").catch(() => undefined));
        abort.abort(new Error("enough"));
        await assert.rejects(aborted, /enough/);
        await assert.rejects(sandbox.exec("true", { signal: abort.signal }), /enough/);
      });
    },
  );

  suite.it("exec keeps no more output than asked for, and never holds the command up", async (subject) => {
    await withSandbox(subject, {}, async (sandbox) => {
      const result = await sandbox.exec("head -c 3000000 /dev/zero | tr '\\0' x; echo done >&2", {
        maxOutputBytes: 1_000,
      });
      assert.equal(result.exitCode, 0);
      assert.equal(result.stdout, "x".repeat(1_000));
      assert.match(result.stderr, /^done\n/);
    });
  });

  suite.it("exec does not wait for what it left in the background", async (subject) => {
    await withSandbox(subject, {}, async (sandbox) => {
      const result = await sandbox.exec(
        "(setsid sh -c 'while :; do echo x >> ticks; sleep 0.01; done' &); echo bye",
      );
      assert.equal(result.exitCode, 0);
      assert.match(result.stdout, /bye/);
      await waitFor(() => sandbox.files.stat("ticks").catch(() => undefined));
    });
  });

  suite.it("many execs at once do not disturb each other", async (subject) => {
    await withSandbox(subject, {}, async (sandbox) => {
      const numbers = Array.from({ length: 8 }, (_, n) => n);
      const results = await Promise.all(numbers.map((n) => sandbox.exec(`echo ${n}; exit ${n}`)));
      assert.deepEqual(
        results.map(({ stdout, exitCode }) => [stdout, exitCode]),
        numbers.map((n) => [`${n}\n`, n]),
      );
    });
  });
}
