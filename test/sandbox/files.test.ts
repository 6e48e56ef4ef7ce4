import { execFileSync } from "node:child_process";
import { chmod, mkdir, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Sandbox } from "../../src/sandbox/index.ts";
import { makeFolder, makeSandbox } from "./workbench.ts";

const text = async (bytes: Promise<Uint8Array>): Promise<string> => Buffer.from(await bytes).toString("utf8");

describe("the files of a sandbox", () => {
  it("are written, listed, read, moved and removed", async () => {
    const { sandbox } = await makeSandbox();
    const { files, paths } = sandbox;
    await files.write("src/deep/a.txt", "äöü");
    await files.write("src/b.bin", new Uint8Array([0, 255]));
    await files.mkdir("src/z/y");
    await files.mkdir("src/z/y");
    expect(await text(files.read("src/deep/a.txt"))).toBe("äöü");
    expect([...(await files.read("src/b.bin"))]).toEqual([0, 255]);
    const list = await files.list("src");
    expect(
      list.map(({ name, entryType, size }) => [name, entryType, entryType === "file" ? size : 0]),
    ).toEqual([
      ["b.bin", "file", 2],
      ["deep", "directory", 0],
      ["z", "directory", 0],
    ]);
    expect(list[0]?.path).toBe(join(paths.workspace, "src/b.bin"));
    expect(await files.stat("src/b.bin")).toEqual(list[0]);
    expect((await files.stat(".")).entryType).toBe("directory");

    await files.move("src/b.bin", "dst/c.bin");
    await expect(files.move("src/deep/a.txt", "dst/c.bin")).rejects.toMatchObject({
      code: "invalid_request",
    });
    await files.move("src/deep/a.txt", "dst/c.bin", { overwrite: true });
    expect(await text(files.read("dst/c.bin"))).toBe("äöü");

    await expect(files.remove("src")).rejects.toMatchObject({ code: "invalid_request" });
    await files.remove("src", { recursive: true });
    await files.remove("dst/c.bin");
    await files.remove("dst");
    expect(await files.list(".")).toEqual([]);
  });

  it("are reached by the in-sandbox paths that every provider has", async () => {
    const { sandbox } = await makeSandbox();
    const { files, paths } = sandbox;
    expect(await files.list("/mnt/session/outputs")).toEqual([]);
    await files.write("/mnt/session/outputs/report.md", "1");
    await files.write("/mnt/session/uploads/in.csv", "2");
    await files.write("/home/user/.config", "3");
    expect(await text(files.read("/home/user/workspace/output/report.md"))).toBe("1");
    expect(await text(files.read("/workspace/output/report.md"))).toBe("1");
    expect(await text(files.read(join(paths.workspace, "output/report.md")))).toBe("1");
    expect(await readFile(join(paths.uploads, "in.csv"), "utf8")).toBe("2");
    expect(await readFile(join(paths.home, ".config"), "utf8")).toBe("3");
    expect((await files.list("/workspace/output"))[0]?.path).toBe("/workspace/output/report.md");
  });

  it("that do not exist say so", async () => {
    const { sandbox } = await makeSandbox();
    const { files } = sandbox;
    await files.write("file", "x");
    const acts = [
      () => files.read("no"),
      () => files.list("no"),
      () => files.stat("no/no"),
      () => files.remove("no"),
      () => files.move("no", "b"),
    ];
    for (const act of acts) {
      await expect(act()).rejects.toMatchObject({
        code: "file_not_found",
        message: expect.stringContaining("no"),
      });
    }
    await expect(files.list("file")).rejects.toMatchObject({ code: "file_not_found" });
    await expect(files.write("file/below", "x")).rejects.toMatchObject({ code: "file_not_found" });
    await expect(files.read(".")).rejects.toMatchObject({ code: "permission_denied" });
    await files.mkdir("folder");
    await expect(files.read("folder")).rejects.toMatchObject({ code: "invalid_request" });
    await expect(files.write("folder", "x")).rejects.toMatchObject({ code: "invalid_request" });
    execFileSync("mkfifo", [join(sandbox.paths.workspace, "fifo")]);
    await expect(files.read("fifo")).rejects.toMatchObject({ code: "invalid_request" });
    await expect(files.write("fifo", "x")).rejects.toMatchObject({ code: "invalid_request" });
    await expect(files.read("a\0b")).rejects.toMatchObject({ code: "invalid_request" });
  });

  it("never lead outside", async () => {
    const { sandbox, secret, escapes } = await makeEscapes();
    const { files } = sandbox;
    for (const path of escapes) {
      const acts = [
        files.read(path),
        files.write(path, "overwritten"),
        files.write(`${path}/new`, "new"),
        files.mkdir(`${path}/new`),
        files.list(path),
        files.remove(`${path}/secret`),
        files.move(`${path}/secret`, "stolen"),
        files.move("mine", `${path}/new`),
        files.stat(`${path}/secret`),
      ];
      for (const act of await Promise.allSettled(acts))
        expect(act, path).toMatchObject({ status: "rejected" });
      const [read, write] = await Promise.allSettled([files.read(path), files.write(path, "overwritten")]);
      const refused = path === "dangling/below" ? "file_not_found" : "permission_denied";
      expect([path, code(read), code(write)]).toEqual([path, refused, refused]);
    }
    expect(await readdir(secret)).toEqual(["secret"]);
    expect(await readFile(join(secret, "secret"), "utf8")).toBe("secret");
    expect(await text(files.read("mine"))).toBe("mine");
  });

  it("remove and move a symlink itself, never its target", async () => {
    const { sandbox, secret } = await makeEscapes();
    const { files } = sandbox;
    expect((await files.stat("dirlink")).entryType).toBe("symlink");
    await files.move("filelink", "renamed");
    await files.remove("renamed");
    await files.write("tree/x", "x");
    await symlink(secret, join(sandbox.paths.workspace, "tree/inner"));
    await files.remove("tree", { recursive: true });
    await files.remove("dirlink", { recursive: true });
    expect(await readFile(join(secret, "secret"), "utf8")).toBe("secret");
    await expect(files.remove("/workspace", { recursive: true })).rejects.toMatchObject({
      code: "permission_denied",
    });
  });

  it("follow symlinks that stay inside", async () => {
    const { sandbox } = await makeSandbox();
    const { files, paths } = sandbox;
    await files.write("real/a", "1");
    await symlink("real", join(paths.workspace, "alias"));
    await symlink(join(paths.workspace, "real/a"), join(paths.home, "shortcut"));
    await files.write("alias/a", "2");
    expect(await text(files.read("real/a"))).toBe("2");
    expect(await text(files.read("/home/user/shortcut"))).toBe("2");
    expect((await files.list("alias")).map((entry) => entry.name)).toEqual(["a"]);
  });

  it("stay inside while a parent is swapped for a symlink again and again", async () => {
    const { sandbox, secret } = await makeEscapes();
    const { files, paths } = sandbox;
    const place = join(paths.workspace, "swap");
    const done = new AbortController();
    const swap = (async () => {
      while (!done.signal.aborted) {
        await rm(place, { recursive: true, force: true }).catch(() => {});
        await symlink(secret, place).catch(() => {});
        await rm(place, { recursive: true, force: true }).catch(() => {});
        await mkdir(place).catch(() => {});
        await writeFile(join(place, "secret"), "mine").catch(() => {});
      }
    })();
    const seen = new Set<string>();
    for (let round = 0; round < 400; round++) {
      await text(files.read("swap/secret")).then(
        (found) => seen.add(found),
        () => {},
      );
      await files.write("swap/secret", "mine").catch(() => {});
      await files.write("swap/made/deep", "mine").catch(() => {});
      await files.remove("swap/made", { recursive: true }).catch(() => {});
    }
    done.abort();
    await swap;
    expect([...seen].filter((found) => found !== "mine" && found !== "")).toEqual([]);
    expect(await readdir(secret)).toEqual(["secret"]);
    expect(await readFile(join(secret, "secret"), "utf8")).toBe("secret");
  });

  it("of other sandboxes are not reached through a workspace that contains them", async () => {
    const directory = await makeFolder();
    const { provider } = await makeSandbox();
    const { createLocalProvider } = await import("../../src/sandbox/index.ts");
    const inner = createLocalProvider({ root: join(directory, "data") });
    const victim = await inner.create({ id: "victim" });
    await victim.files.write("secret", "x");
    const spy = await inner.create({ id: "spy", directory });
    await expect(spy.files.read("data/victim/workspace/secret")).rejects.toMatchObject({
      code: "permission_denied",
    });
    await spy.files.write("/home/user/own", "fine");
    expect(await text(spy.files.read("/home/user/own"))).toBe("fine");
    expect(provider.id).toBe("local");
    await victim.destroy();
    await spy.destroy();
  });

  it("are removed with the sandbox, write-protected ones too", async () => {
    const { sandbox, provider } = await makeSandbox();
    await sandbox.files.write("cache/mod/file", "x");
    await chmod(join(sandbox.paths.workspace, "cache/mod"), 0o555);
    await sandbox.destroy();
    expect(await provider.connect(sandbox.id)).toBeUndefined();
  });
});

function code(settled: PromiseSettledResult<unknown>): unknown {
  return settled.status === "rejected" ? (settled.reason as { code?: unknown }).code : undefined;
}

/** A folder with a secret outside, and the ways to it. */
async function makeEscapes(): Promise<{ sandbox: Sandbox; secret: string; escapes: string[] }> {
  const secret = join(await makeFolder(), "outside");
  await mkdir(secret);
  await writeFile(join(secret, "secret"), "secret");
  const { sandbox } = await makeSandbox();
  const { workspace } = sandbox.paths;
  await writeFile(join(workspace, "mine"), "mine");
  await symlink(join(secret, "secret"), join(workspace, "filelink"));
  await symlink(secret, join(workspace, "dirlink"));
  await symlink("dirlink", join(workspace, "linklink"));
  await symlink(join(secret, "not-yet"), join(workspace, "dangling"));
  await symlink("/", join(workspace, "root"));
  const escapes = [
    "..",
    "../..",
    "../sandbox.json",
    "a/../../..",
    "/",
    "/etc/passwd",
    secret,
    join(secret, "secret"),
    "/workspace/../etc/passwd",
    "/home/user/../../etc/passwd",
    "/mnt/session/uploads/../../x",
    `${workspace}x`,
    "filelink",
    "dirlink/secret",
    "dirlink/no/such/file",
    "linklink/secret",
    "dangling",
    "dangling/below",
    "root/etc/passwd",
    "/mnt/session/uploads/../../../workspace/dirlink/secret",
  ];
  return { sandbox, secret, escapes };
}
