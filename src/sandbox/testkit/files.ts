import assert from "node:assert/strict";
import { failsWith, read, withSandbox, type Suite } from "./suite.ts";

/** The files, from outside and from inside; none of them outside. */
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

  suite.it("a program may be written as one, and a link leads nobody outside", async (subject) => {
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

  suite.it("what the agent makes can be read, changed and removed from outside", async (subject) => {
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
