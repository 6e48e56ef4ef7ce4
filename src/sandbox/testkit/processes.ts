import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { standsStill } from "./life.ts";
import { failsWith, read, spawnScript, waitFor, withSandbox, type Suite } from "./suite.ts";

/** Starts processes that escape in every way. Each one's file grows while it runs. */
const ESCAPES = `
tick='while :; do echo x >> $0; sleep 0.01; done'
sh -c "$tick" t1 &
setsid sh -c "$tick" t2 &
nohup sh -c "$tick" t3 > /dev/null 2>&1 &
(setsid sh -c "sh -c '$tick' t4 &" &)
(setsid sh -c "trap '' TERM HUP INT; $tick" t5 &)
(env -i PATH=$PATH setsid sh -c "env -i PATH=$PATH sh -c '$tick' t6 &" &)
while ! [ -s t1 -a -s t2 -a -s t3 -a -s t4 -a -s t5 -a -s t6 ]; do sleep 0.01; done
`;
const COUNTERS = ["t1", "t2", "t3", "t4", "t5", "t6"];

/** Signals, killing, pausing, and ports. */
export function processes(suite: Suite): void {
  suite.it(
    "killAll ends every process, whatever it did to escape, and the sandbox can be used again",
    async (subject) => {
      await withSandbox(subject, {}, async (sandbox) => {
        const size = counter(sandbox.files);
        await spawnScript(sandbox, ESCAPES);
        await sandbox.killAll();
        await standsStill(size);
        await sandbox.killAll();
        assert.equal((await sandbox.exec("echo again")).stdout, "again\n");
      });
    },
  );

  suite.it("killAll ends the background processes of an exec, too", async (subject) => {
    await withSandbox(subject, {}, async (sandbox) => {
      const size = counter(sandbox.files);
      await sandbox.exec(ESCAPES);
      await sandbox.killAll();
      await standsStill(size);
    });
  });

  suite.it("a signal reaches the process behind its wrapper", async (subject) => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-signal-"));
    const script = 'trap : HUP INT TERM; echo $$ > "$0/pid"; (exec "$@"); echo $? > "$0/exit"';
    try {
      await withSandbox(subject, {}, async (sandbox) => {
        const wrapper = ["/bin/sh", "-c", script, folder];
        await spawnScript(
          sandbox,
          "trap 'echo > caught' INT; trap 'exit 9' TERM; echo > ready; while :; do sleep 0.01; done",
          {
            wrapper,
          },
        );
        const pid = Number(await readFile(join(folder, "pid"), "utf8"));
        await sandbox.signal(pid, "SIGINT");
        await waitFor(() => read(sandbox, "caught"));
        await sandbox.signal(pid, "SIGTERM");
        const exit = await waitFor(() => readFile(join(folder, "exit"), "utf8").catch(() => undefined));
        assert.equal(exit, "9\n");
        await waitFor(
          async () => (await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "gone")) === "gone",
        );
        await sandbox.signal(pid, "SIGTERM");
        await failsWith("permission_denied", sandbox.signal(process.pid, "SIGTERM"));
      });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  suite.it("refuses a missing program", async (subject) => {
    await withSandbox(subject, {}, async (sandbox) => {
      const launch = { argv: ["no-such-agent"], env: {} };
      await failsWith("agent_not_installed", sandbox.spawn({ launch, wrapper: [] }));
    });
  });

  suite.it(
    "stops while paused, with all descendants, and goes on",
    async (subject) => {
      await withSandbox(subject, {}, async (sandbox) => {
        const size = counter(sandbox.files);
        await spawnScript(sandbox, ESCAPES);
        await sandbox.pause?.();
        const before = await standsStill(size);
        await sandbox.resume?.();
        await waitFor(async () => (await size()) > before);
        await sandbox.pause?.();
        await sandbox.killAll();
      });
    },
    "pause",
  );

  suite.it(
    "a port that is open inside can be reached, also one that opens later",
    async (subject) => {
      await withSandbox(subject, {}, async (sandbox) => {
        assert.ok(sandbox.host);
        const url = await sandbox.host(38_471);
        const server = `require("http").createServer((q, r) => r.end("inside " + q.url)).listen(38471, "127.0.0.1")`;
        await sandbox.files.write("server.cjs", server);
        await sandbox.spawn({
          launch: { argv: [process.execPath, "server.cjs"], env: {}, needs: [process.execPath] },
          wrapper: [],
        });
        const text = await waitFor(async () => {
          const answer = await fetch(new URL("/x", url)).catch(() => undefined);
          return answer?.ok ? answer.text() : undefined;
        });
        assert.equal(text, "inside /x");
      });
    },
    "host",
  );
}

function counter(files: { stat(path: string): Promise<{ size: number }> }): () => Promise<number> {
  return async () => {
    const sizes = await Promise.all(COUNTERS.map(async (name) => (await files.stat(name)).size));
    return sizes.reduce((sum, size) => sum + size, 0);
  };
}

/** `exec`: input, output, exit code and limits. */
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
    "exec runs in the workspace or in a folder of the sandbox, with the given environment",
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

  suite.it("exec ends with its timeout or when it is aborted, with all its descendants", async (subject) => {
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
  });

  suite.it("exec keeps no more output than its limit, and never blocks the command", async (subject) => {
    await withSandbox(subject, {}, async (sandbox) => {
      const result = await sandbox.exec("head -c 3000000 /dev/zero | tr '\\0' x; echo done >&2", {
        maxOutputBytes: 1_000,
      });
      assert.equal(result.exitCode, 0);
      assert.equal(result.stdout, "x".repeat(1_000));
      assert.match(result.stderr, /^done\n/);
    });
  });

  suite.it("exec does not wait for its background processes", async (subject) => {
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
