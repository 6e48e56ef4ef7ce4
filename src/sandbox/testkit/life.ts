import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { read, spawnScript, waitFor, withSandbox, type ProviderUnderTest, type Suite } from "./suite.ts";

/** The life of a sandbox: created, found again and destroyed; and processes that outlive the server. */
export function life(suite: Suite): void {
  suite.it("is available, or this suite would not run", async ({ provider }) => {
    assert.deepEqual(await provider.detect(), { available: true });
  });

  suite.it("makes a sandbox, finds it again after a restart, and destroys it", async (subject) => {
    await withSandbox(subject, { id: "a:b.c", env: { KEPT: "yes" } }, async (sandbox) => {
      assert.equal(sandbox.provider, subject.provider.id);
      await sandbox.files.write("a.txt", "kept");
      const again = await (await subject.reopen()).connect("a:b.c");
      assert.ok(again);
      assert.deepEqual(again.paths, sandbox.paths);
      assert.equal((await again.exec("echo $KEPT; cat a.txt")).stdout, "yes\nkept");
      await sandbox.destroy();
      assert.equal(await (await subject.reopen()).connect("a:b.c"), undefined);
    });
    assert.equal(await subject.provider.connect("nobody"), undefined);
  });

  suite.it("a restarted server ends the processes of an earlier one", async (subject) => {
    await withSandbox(subject, {}, async (sandbox) => {
      await spawnScript(sandbox, TICKS);
      const again = await (await subject.reopen()).connect(sandbox.id);
      await again?.killAll();
      await standsStill(async () => (await read(sandbox, "ticks"))?.length ?? 0);
    });
  });

  suite.it("records pid, output and exit behind a wrapper that runs outside", async (subject) => {
    await withSandbox(subject, {}, (sandbox) =>
      withWrapper(async ({ folder, wrapper }) => {
        const launch = { argv: ["/bin/sh", "-c", "read line; echo got $line; exit 7"], env: {} };
        await sandbox.spawn({ launch, wrapper });
        const exit = await waitFor(() => readWhole(join(folder, "exit")));
        assert.equal(exit, "7\n");
        assert.equal(await readFile(join(folder, "out"), "utf8"), "got input\n");
        assert.ok(Number(await readFile(join(folder, "pid"), "utf8")) > 1);
      }),
    );
  });

  suite.it(
    "a spawned process goes on when the program that started it is killed",
    (subject) =>
      withWrapper(async ({ folder, wrapper }) => {
        const launch = { argv: ["/bin/sh", "-c", `${TICKS}\nwait`], env: {} };
        const program = await survivor(subject)({ id: "sbx_survivor", launch, wrapper });
        const sandbox = await waitFor(async () => (await subject.reopen()).connect("sbx_survivor"));
        try {
          await waitFor(() => read(sandbox, "ticks"));
          await program.kill();
          const before = (await read(sandbox, "ticks"))?.length ?? 0;
          await waitFor(async () => ((await read(sandbox, "ticks"))?.length ?? 0) > before + 3);
          await sandbox.signal(Number(await readFile(join(folder, "pid"), "utf8")), "SIGTERM");
          assert.equal(await waitFor(() => readWhole(join(folder, "exit"))), "143\n");
        } finally {
          await sandbox.destroy();
        }
      }),
    "survival",
  );

  suite.it("takes over an existing sandbox of its id", async (subject) => {
    await withSandbox(subject, {}, async (sandbox) => {
      await sandbox.files.write("a.txt", "1");
      const again = await subject.provider.create({ id: sandbox.id, ...subject.spec });
      assert.equal(await read(again, "a.txt"), "1");
    });
  });
}

const TICKS = "(while :; do echo x >> ticks; sleep 0.01; done) &";

/** Gives a wrapper like the spool's: it writes to a folder of the host that the sandbox does not see. */
async function withWrapper(
  work: (wrapped: { folder: string; wrapper: readonly string[] }) => Promise<void>,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-wrapper-"));
  const script =
    'd=$0; trap : HUP INT TERM; echo $$ > "$d/pid"; (echo input | (exec "$@")) > "$d/out" 2> "$d/err"; echo $? > "$d/exit"';
  try {
    await work({ folder, wrapper: ["/bin/sh", "-c", script, folder] });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function readWhole(file: string): Promise<string | undefined> {
  const text = await readFile(file, "utf8").catch(() => "");
  return text.endsWith("\n") ? text : undefined;
}

export async function standsStill(size: () => Promise<number>): Promise<number> {
  const before = await size();
  // Ten times as long as one tick.
  await new Promise((resolve) => setTimeout(resolve, 200));
  assert.equal(await size(), before);
  return before;
}

function survivor(subject: ProviderUnderTest): NonNullable<ProviderUnderTest["program"]> {
  assert.ok(subject.program, "give a `program`, or declare that there is no `survival`");
  return subject.program;
}
