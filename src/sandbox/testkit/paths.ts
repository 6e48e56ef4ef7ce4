import assert from "node:assert/strict";
import { read, withSandbox, type Suite } from "./suite.ts";

/** The pinned in-sandbox paths. */
export function paths(suite: Suite): void {
  suite.it("the API knows the pinned paths", async (subject) => {
    await withSandbox(subject, {}, async (sandbox) => {
      await sandbox.files.write("/mnt/session/outputs/report.md", "1");
      await sandbox.files.write("/mnt/session/uploads/in.csv", "2");
      await sandbox.files.write("/home/user/.config", "3");
      for (const path of [
        "output/report.md",
        "/workspace/output/report.md",
        "/home/user/workspace/output/report.md",
      ]) {
        assert.equal(await read(sandbox, path), "1", path);
      }
      assert.deepEqual(
        (await sandbox.files.list("/mnt/session/uploads")).map(({ path }) => path),
        ["/mnt/session/uploads/in.csv"],
      );
      const { stdout } = await sandbox.exec(`cat ${sandbox.paths.uploads}/in.csv ~/.config output/report.md`);
      assert.equal(stdout, "231");
    });
  });

  suite.it(
    "the agent sees the pinned paths, each folder under all of its names",
    async (subject) => {
      await withSandbox(subject, {}, async (sandbox) => {
        assert.deepEqual(sandbox.paths, {
          workspace: "/home/user/workspace",
          home: "/home/user",
          uploads: "/mnt/session/uploads",
          outputs: "/mnt/session/outputs",
        });
        await sandbox.files.write("/mnt/session/uploads/in.csv", "in");
        const script = `set -e
[ /workspace -ef /home/user/workspace ]
[ /mnt/session/outputs -ef /home/user/workspace/output ]
[ "$HOME" = /home/user ]
[ "$(cat /mnt/session/uploads/in.csv)" = in ]
echo a > /workspace/a; cat /home/user/workspace/a
echo b > /mnt/session/outputs/b; cat /workspace/output/b
echo c > ~/c; echo t > /tmp/t; cat ~/c /tmp/t
rm -r /workspace/output; mkdir /workspace/output; echo d > /mnt/session/outputs/d; cat output/d`;
        const { stdout, stderr } = await sandbox.exec(script);
        assert.equal(stderr, "");
        assert.equal(stdout, "a\nb\nc\nt\nd\n");
        assert.equal(await read(sandbox, "/mnt/session/outputs/d"), "d\n");
        assert.equal((await sandbox.files.stat("output/d")).path, "/home/user/workspace/output/d");
      });
    },
    "paths",
  );

  suite.it("places a launch's files below the home, and nowhere else", async (subject) => {
    await withSandbox(subject, {}, async (sandbox) => {
      const files = [{ path: ".agent/config", content: "configured", mode: 0o640 }];
      const argv = [
        "/bin/sh",
        "-c",
        "cat ~/.agent/config > seen.new; stat -c %a ~/.agent/config >> seen.new; mv seen.new seen; sleep 600",
      ];
      await sandbox.spawn({ launch: { argv, env: {}, files }, wrapper: [] });
      for (let seen; seen === undefined;) seen = await read(sandbox, "seen");
      assert.equal(await read(sandbox, "seen"), "configured640\n");
      for (const path of ["../evil", "/etc/evil"]) {
        const launch = { argv: ["/bin/true"], env: {}, files: [{ path, content: "x" }] };
        await assert.rejects(sandbox.spawn({ launch, wrapper: [] }), { code: "permission_denied" });
      }
    });
  });
}
