import assert from "node:assert/strict";
import { failsWith, read, withSandbox, type Suite } from "./suite.ts";

/** Files: written and read by the API and by commands inside, and never outside of the sandbox. */
export function files(suite: Suite): void {
  suite.it("files are written, read, listed, moved and removed", async (subject) => {
    await withSandbox(subject, {}, async ({ files }) => {
      await files.write("src/deep/a.txt", "äöü");
      await files.write("src/b.bin", new Uint8Array([0, 255]));
      await files.mkdir("src/z/y");
      await files.mkdir("src/z/y");
      assert.equal(Buffer.from(await files.read("src/deep/a.txt")).toString("utf8"), "äöü");
      assert.deepEqual([...(await files.read("src/b.bin"))], [0, 255]);
      const list = await files.list("src");
      assert.deepEqual(
        list.map(({ name, entryType }) => [name, entryType]),
        [
          ["b.bin", "file"],
          ["deep", "directory"],
          ["z", "directory"],
        ],
      );
      assert.equal(list[0]?.size, 2);
      assert.deepEqual(await files.stat("src/b.bin"), list[0]);
      await files.move("src/b.bin", "dst/c.bin");
      await failsWith("invalid_request", files.move("src/deep/a.txt", "dst/c.bin"));
      await files.move("src/deep/a.txt", "dst/c.bin", { overwrite: true });
      await failsWith("invalid_request", files.remove("src"));
      await files.remove("src", { recursive: true });
      await failsWith("file_not_found", files.read("src/b.bin"));
      await failsWith("file_not_found", files.stat("src"));
      await files.remove("dst/c.bin");
      assert.deepEqual(await files.list("dst"), []);
    });
  });

  suite.it("a written program can be executable, and a link leads nowhere outside", async (subject) => {
    await withSandbox(subject, {}, async (sandbox) => {
      const { files } = sandbox;
      await files.write("bin/run", "#!/bin/sh\necho ran\n", { mode: 0o755 });
      if (files.symlink === undefined) return assert.equal((await sandbox.exec("bin/run")).stdout, "ran\n");
      await files.symlink("bin/link", "run");
      assert.equal((await files.stat("bin/link")).entryType, "symlink");
      assert.equal((await sandbox.exec("bin/link")).stdout, "ran\n");
      await files.symlink("away/etc", "/etc");
      await failsWith("permission_denied", files.read("away/etc/passwd"));
      await failsWith("permission_denied", files.symlink("away/etc/x", "y"));
    });
  });

  suite.it("a batch of files is there at once, for the agent to read and to change", async (subject) => {
    await withSandbox(subject, {}, async (sandbox) => {
      const names = Array.from({ length: 50 }, (_, n) => `batch/${n % 5}/${n}.txt`);
      await Promise.all(names.map((name) => sandbox.files.write(name, name)));
      const script =
        "for f in batch/*/*; do [ $(cat $f) = $f ] || exit 1; echo more >> $f; done; rm -r batch/0; ls batch";
      const { exitCode, stdout } = await sandbox.exec(script);
      assert.equal(exitCode, 0);
      assert.equal(stdout, "1\n2\n3\n4\n");
      assert.equal(await read(sandbox, "batch/1/1.txt"), "batch/1/1.txtmore\n");
    });
  });

  suite.it("the agent's files can be read, changed and removed from outside", async (subject) => {
    await withSandbox(subject, {}, async (sandbox) => {
      await sandbox.exec("mkdir -p made/deep; echo 1 > made/deep/a; chmod 700 made; chmod 600 made/deep/a");
      assert.equal(await read(sandbox, "made/deep/a"), "1\n");
      await sandbox.files.write("made/deep/a", "2");
      assert.equal((await sandbox.exec("cat made/deep/a; echo 3 > made/deep/a")).stdout, "2");
      await sandbox.files.remove("made", { recursive: true });
      assert.equal((await sandbox.exec("ls -d made")).exitCode, 2);
    });
  });

  suite.it("no path and no symlink leads outside", async (subject) => {
    await withSandbox(subject, {}, async (sandbox) => {
      const { files } = sandbox;
      for (const path of [
        "/etc/passwd",
        "../../../etc/passwd",
        "/home/user/../../etc/passwd",
        "/proc/self/environ",
      ]) {
        await failsWith("permission_denied", files.read(path));
        await failsWith("permission_denied", files.write(path, "x"));
        await failsWith("permission_denied", files.remove(path));
      }
      await sandbox.exec(
        "ln -s /etc out; ln -s /etc/hostname file; ln -s ../../../../../../../../../../../../etc up; ln -s /nowhere gone; mkdir in",
      );
      for (const path of ["out/passwd", "file", "up/passwd", "gone"]) {
        await failsWith("permission_denied", files.read(path));
        await failsWith("permission_denied", files.write(path, "x"));
      }
      await failsWith("permission_denied", files.list("out"));
      await failsWith("permission_denied", files.mkdir("out/x"));
      await failsWith("permission_denied", files.move("in", "out/in"));
      assert.equal((await files.stat("out")).entryType, "symlink");
      await files.remove("out");
      await failsWith("file_not_found", files.stat("out"));
    });
  });
}

/** The pinned in-sandbox paths, and the files of a launch. */
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

  suite.it("writes a launch's files below the home, and nowhere else", async (subject) => {
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
