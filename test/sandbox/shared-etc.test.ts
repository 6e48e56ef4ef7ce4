import { chmod, mkdir, readdir, readFile, rm, stat, symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { findMemoryFolder, findSharedEtc } from "../../src/sandbox/bwrap/system.ts";
import { adopt, describeBwrap, makeFolder, makeProvider } from "./bwrap-bench.ts";

describeBwrap("the /etc of sandboxes with a network of their own", () => {
  const hasMemory = findMemoryFolder() !== undefined;

  it.skipIf(!hasMemory)(
    "is one for all, made once, and nobody inside can change it (needs /dev/shm)",
    async () => {
      const { root, provider } = await makeProvider();
      const one = adopt(await provider.create({ id: "one" }));
      const two = adopt(await provider.create({ id: "two" }));
      const look = "cat /etc/passwd /etc/hosts; stat -c '%d %i' /etc/passwd";
      const seen = await one.exec(look);
      expect(seen.stdout).toContain("user:x:1000");
      expect((await two.exec(look)).stdout).toBe(seen.stdout);
      const written = await one.exec(
        "echo evil >> /etc/passwd; rm -f /etc/hosts; chmod 777 /etc; ln -s / /etc/new",
      );
      expect(written.exitCode).not.toBe(0);
      expect((await two.exec(look)).stdout).toBe(seen.stdout);
      expect((await two.exec("ls /etc/new")).exitCode).not.toBe(0);
      expect(await readdir(join(root, "one"))).not.toContain("etc");
    },
  );

  it("is made whole, and found again", async () => {
    const place = await makeFolder();
    const [first, second] = await Promise.all([findSharedEtc(place), findSharedEtc(place)]);
    expect(second).toBe(first);
    expect(await readdir(place)).toHaveLength(1);
    expect((await stat(first as string)).mode & 0o777).toBe(0o755);
    expect(await readFile(join(first as string, "hostname"), "utf8")).toBe("sandbox\n");
    expect(await findSharedEtc(place)).toBe(first);
  });

  it("is not taken from a folder that others may have written", async () => {
    const place = await makeFolder();
    const path = (await findSharedEtc(place)) as string;
    await chmod(path, 0o777);
    expect(await findSharedEtc(place)).toBeUndefined();
    await rm(path, { recursive: true });
    await mkdir(join(place, "elsewhere"));
    await symlink(join(place, "elsewhere"), path);
    expect(await findSharedEtc(place)).toBeUndefined();
    expect((await readdir(place)).toSorted()).toEqual(["elsewhere", path.slice(place.length + 1)].toSorted());
  });
});
