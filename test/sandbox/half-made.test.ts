import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createBwrapProvider, createLocalProvider } from "../../src/sandbox/index.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "sluice-half-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

it("a folder whose maker was killed before its record was there is swept, and one of this moment is not", async () => {
  const provider = createLocalProvider({ root });
  for (const name of ["sbx_old", "sbx_new"]) {
    mkdirSync(join(root, name));
    writeFileSync(join(root, name, "sandbox.json.new"), "{");
  }
  const before = Date.now() / 1_000 - 60;
  utimesSync(join(root, "sbx_old"), before, before);
  expect(await provider.list?.()).toEqual([]);
  expect(readdirSync(root)).toEqual(["sbx_new"]);
});

it.skipIf(process.getuid?.() !== 0)(
  "a removal that does not come to its end leaves a sandbox that is found again (skipped without root, who can mount)",
  async () => {
    const provider = createLocalProvider({ root });
    const parts = ["home", "tmp", "uploads", "workspace"];
    // Folders are listed in any order, so each part is once the one that cannot be removed.
    for (const part of parts) {
      const sandbox = await provider.create({ id: `sbx_${part}`, session: "s" });
      const busy = join(root, `sbx_${part}`, part, "busy");
      mkdirSync(busy);
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=16k", "tmpfs", busy]);
      await expect(sandbox.destroy()).rejects.toThrow(/EBUSY/);
      execFileSync("umount", [busy]);
    }
    const ids = parts.map((part) => `sbx_${part}`);
    expect((await provider.list?.())?.map(({ id }) => id).toSorted()).toEqual(ids);
    for (const id of ids) await (await provider.connect(id))?.destroy();
    for (const id of ids) expect(existsSync(join(root, id))).toBe(false);
  },
);

it.skipIf(process.getuid?.() !== 0)(
  "a file whose maker was killed before it gave it away is the sandbox's with the next write (skipped without root, who alone has something to give)",
  async () => {
    const provider = createBwrapProvider({ root });
    const sandbox = await provider.create({ id: "sbx_left", session: "s" });
    writeFileSync(join(root, "sbx_left", "home", ".settings"), "", { mode: 0o600 });
    await sandbox.files.write("/home/user/.settings", "set", { mode: 0o600 });
    expect(await sandbox.exec('cat "$HOME/.settings"')).toMatchObject({ exitCode: 0, stdout: "set" });
    await sandbox.destroy();
  },
);

it.skipIf(process.getuid?.() !== 0)(
  "so is a folder of the sandbox's own, but none of a directory that was there before (skipped without root)",
  async () => {
    const provider = createBwrapProvider({ root: join(root, "sandboxes") });
    const directory = join(root, "project");
    mkdirSync(join(directory, "theirs"), { recursive: true });
    const own = await provider.create({ id: "sbx_own", session: "s" });
    const lent = await provider.create({ id: "sbx_lent", session: "t", directory });
    for (const path of ["home/.agent", "workspace/src"])
      mkdirSync(join(root, "sandboxes/sbx_own", path), { recursive: true, mode: 0o700 });
    for (const path of ["/home/user/.agent", "/home/user/workspace/src"]) {
      await own.files.write(`${path}/settings`, "set", { mode: 0o600 });
      expect(await own.exec(`echo more > ${path}/more && cat ${path}/settings`)).toMatchObject({
        exitCode: 0,
        stdout: "set",
      });
    }
    await lent.files.write("/home/user/workspace/theirs/file", "x");
    expect(statSync(join(directory, "theirs")).uid).toBe(0);
    await own.destroy();
    await lent.destroy();
  },
);
