import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { appendFile, mkdir, readFile, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { createSpool, openSpool, type HostSpool } from "../../src/spool/index.ts";
import { followAll, makeFolder, start, texts, waitFor } from "./workbench.ts";

const read = (spool: HostSpool, name: string): Promise<string> => readFile(join(spool.folder, name), "utf8");

async function makeSpool(): Promise<HostSpool> {
  return createSpool(join(await makeFolder(), "s"));
}

describe("input", () => {
  it("reaches the process in order, each id once, and ends with the input", async () => {
    const spool = await makeSpool();
    await spool.send({ id: "early", at: 0, text: "before the start\n" });
    await start(spool, ["cat"]);
    const sends = ["a", "b", "a", "c", "b"].map((id) => spool.send({ id, at: 0, text: `${id}\n` }));
    expect(await Promise.all(sends)).toEqual([true, true, false, true, false]);
    await spool.closeInput();
    const { lines, last } = await followAll(spool);
    expect(texts(lines)).toEqual(["before the start", "a", "b", "c"]);
    expect(last.exit).toEqual({ code: 0 });
    expect((await spool.sent()).map((entry) => entry.id)).toEqual(["early", "a", "b", "c"]);
    await spool.closeInput();
  });

  it("is known to the next opener of the spool", async () => {
    const spool = await makeSpool();
    await spool.send({ id: "a", at: 7, text: "täxt\n" });
    const again = (await openSpool(spool.folder))!;
    expect(await again.send({ id: "a", at: 9, text: "täxt\n" })).toBe(false);
    expect(await again.sent()).toEqual([{ id: "a", at: 7, text: "täxt\n" }]);
    expect(await read(spool, "in")).toBe("täxt\n");
  });

  it("is sent once, also by two openers", async () => {
    const one = await makeSpool();
    const other = (await openSpool(one.folder))!;
    expect(await one.send({ id: "a", at: 0, text: "a\n" })).toBe(true);
    expect(await other.send({ id: "b", at: 0, text: "b\n" })).toBe(true);
    expect(await one.send({ id: "b", at: 0, text: "b\n" })).toBe(false);
    expect(await other.send({ id: "a", at: 0, text: "a\n" })).toBe(false);
    expect(await read(one, "in")).toBe("a\nb\n");
  });

  it("of 5 MB reaches a slow reader byte for byte, also when the input is closed at once", async () => {
    const spool = await makeSpool();
    const text = `${randomBytes(2_500_000).toString("hex")}\n`;
    await start(spool, ["sh", "-c", "sleep 0.3; dd bs=65536 2> /dev/null | (sleep 0.2; cat) > copy"]);
    await spool.send({ id: "big", at: 0, text });
    await spool.closeInput();
    await followAll(spool);
    expect((await read(spool, "copy")) === text).toBe(true);
  });

  it("is closed before the process has begun to read", async () => {
    const spool = await makeSpool();
    const started = start(spool, ["wc", "-c"]);
    await spool.send({ id: "1", at: 0, text: "1234\n" });
    await Promise.all([started, spool.closeInput()]);
    expect(texts((await followAll(spool)).lines)).toEqual(["5"]);
  });
});

describe("input by BusyBox's tail, as in small images (skipped where there is no BusyBox)", () => {
  it.for(["private", "named"] as const)("reaches a process with %s streams", async (streams, { skip }) => {
    const busybox = spawnSync("sh", ["-c", "command -v busybox"], { encoding: "utf8" }).stdout.trim();
    if (busybox === "" && process.env["CI"] !== "true") skip("there is no BusyBox");
    const folder = await makeFolder();
    await symlink(busybox, join(folder, "tail"));
    vi.stubEnv("PATH", `${folder}:${process.env["PATH"]}`);
    const spool = await makeSpool();
    await start(spool, ["cat"], { streams });
    vi.unstubAllEnvs();
    await spool.send({ id: "a", at: 0, text: "a\n" });
    await spool.closeInput();
    expect(texts((await followAll(spool)).lines)).toEqual(["a"]);
  });
});

describe("repair", () => {
  it("completes an interrupted send, once", async () => {
    const root = await makeFolder();
    let run = 0;
    const text = fc
      .string({ unit: "grapheme", maxLength: 30 })
      .map((line) => `${line.replaceAll("\n", "")}\n`);
    const property = fc.asyncProperty(
      fc.array(text, { minLength: 1, maxLength: 5 }),
      fc.nat(),
      fc.nat(),
      async (all, cut, torn) => {
        const folder = join(root, String(run++));
        const spool = await createSpool(folder);
        for (const [n, text] of all.entries()) await spool.send({ id: `${n}`, at: n, text });
        const [input, journal] = [await readFile(join(folder, "in")), await readFile(join(folder, "sent"))];
        // The crash: `in` ends anywhere, also inside a character, and the journal in a line that was never finished.
        await truncate(join(folder, "in"), cut % (input.length + 1));
        await appendFile(join(folder, "sent"), `{"id":"torn","at":0,"text":"never`.slice(0, torn % 33));
        const again = (await openSpool(folder))!;
        await again.repair();
        await again.repair();
        expect(await readFile(join(folder, "in"))).toEqual(input);
        expect(await readFile(join(folder, "sent"))).toEqual(journal);
        expect(await again.send({ id: "0", at: 0, text: "again\n" })).toBe(false);
        expect(await again.send({ id: "torn", at: 0, text: "now\n" })).toBe(true);
        expect(await readFile(join(folder, "in"), "utf8")).toBe(`${all.join("")}now\n`);
      },
    );
    await fc.assert(property, { numRuns: 60 });
  });

  it("sends the rest to a waiting process", async () => {
    const spool = await makeSpool();
    await start(spool, ["cat"]);
    const text = "an input with ünïcode\n";
    await appendFile(join(spool.folder, "sent"), `${JSON.stringify({ id: "1", at: 0, text })}\n`);
    await appendFile(join(spool.folder, "in"), Buffer.from(text).subarray(0, 15));
    await waitFor(async () => (await spool.size()) === 15);
    const again = (await openSpool(spool.folder))!;
    expect(await again.send({ id: "1", at: 0, text })).toBe(false);
    await again.closeInput();
    expect(texts((await followAll(spool)).lines)).toEqual([text.trimEnd()]);
  });
});

describe("a full disk", () => {
  it("fails with storage_full, and a later send works", async () => {
    const spool = await makeSpool();
    await spool.send({ id: "a", at: 0, text: "a\n" });
    const [sent, input] = [join(spool.folder, "sent"), join(spool.folder, "in")];
    const journal = await readFile(sent);
    await rm(input);
    await symlink("/dev/full", input);
    await expect(spool.send({ id: "b", at: 0, text: "b\n" })).rejects.toMatchObject({
      code: "storage_full",
      retryable: true,
    });
    await rm(input);
    await writeFile(input, "a\n");
    expect(await spool.send({ id: "b", at: 0, text: "b\n" })).toBe(false);
    expect(await readFile(input, "utf8")).toBe("a\nb\n");
    expect((await readFile(sent)).subarray(0, journal.length)).toEqual(journal);
  });

  it("leaves no half of a journal line behind", async ({ skip }) => {
    const folder = await makeFolder();
    const disk = join(folder, "disk");
    await mkdir(disk);
    const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", disk]).status === 0;
    if (!mounted) skip("mounting a small disk is not permitted here");
    try {
      const spool = await createSpool(join(disk, "s"));
      await spool.send({ id: "a", at: 0, text: "a\n" });
      const journal = await read(spool, "sent");
      const big = { id: "b", at: 0, text: `${"x".repeat(100_000)}\n` };
      await expect(spool.send(big)).rejects.toMatchObject({ code: "storage_full" });
      expect(await read(spool, "sent")).toBe(journal);
      spawnSync("mount", ["-o", "remount,size=4m", disk]);
      expect(await spool.send(big)).toBe(true);
      expect(await read(spool, "in")).toBe(`a\n${big.text}`);
    } finally {
      spawnSync("umount", [disk]);
    }
  });
});
