import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { standsStill } from "./life.ts";
import { failsWith, read, spawnScript, waitFor, withSandbox, type Suite } from "./suite.ts";

/** Children that leave by every door; each counts in a file of its own. */
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

/** Signals, the end of all, standing still, and ports. */
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

  suite.it("killAll ends what an exec left behind, too", async (subject) => {
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

  suite.it("refuses a program that is not there", async (subject) => {
    await withSandbox(subject, {}, async (sandbox) => {
      const launch = { argv: ["no-such-agent"], env: {} };
      await failsWith("agent_not_installed", sandbox.spawn({ launch, wrapper: [] }));
    });
  });

  suite.it(
    "stands still while paused, with every grandchild, and goes on",
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
