import { execFileSync } from "node:child_process";
import { appendFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createSpool, openSpool } from "../../src/spool/index.ts";
import { collect, followAll, makeFolder, texts } from "./workbench.ts";

describe("forget", () => {
  it("frees the disk space and keeps the bytes behind it", async () => {
    const spool = await createSpool(join(await makeFolder(), "s"));
    const out = join(spool.folder, "out");
    const line = `${"x".repeat(99)}\n`;
    await writeFile(out, line.repeat(100_000));
    execFileSync("sync", [out]);
    const before = await stat(out);
    expect(await spool.size()).toBe(10_000_000);
    await spool.forget(9_000_000);
    const after = await stat(out);
    expect(after.size).toBe(before.size);
    expect(after.blocks * 512).toBeLessThan(1_100_000);
    expect(await spool.size()).toBeLessThan(1_100_000);
    await spool.forget(1_000);
    await spool.forget(9_000_100);
    await appendFile(out, "more\n");
    await writeFile(join(spool.folder, "exit"), "0\n");

    const again = (await openSpool(spool.folder))!;
    const { lines } = await followAll(again, 9_000_000);
    expect(lines).toHaveLength(10_001);
    expect(lines[0]).toEqual({ dir: "out", text: "x".repeat(99), at: 9_000_000 });
    await expect(collect(again.replay(0, 100))).rejects.toThrow("given up");
    await expect(followAll(again, 4_096)).rejects.toThrow("given up");
  });
});

describe("stderr", () => {
  it.each([
    [0, { truncated: false, total_lines: 0 }],
    [1, { head: "1", truncated: false, total_lines: 1 }],
    [70, { head: range(1, 70), truncated: false, total_lines: 70 }],
    [71, { head: range(1, 20), tail: range(22, 71), truncated: true, total_lines: 71 }],
    [50_000, { head: range(1, 20), tail: range(49_951, 50_000), truncated: true, total_lines: 50_000 }],
  ])("of %i lines", async (count, expected) => {
    const spool = await createSpool(join(await makeFolder(), "s"));
    await writeFile(join(spool.folder, "err"), count === 0 ? "" : `${range(1, count)}\n`);
    expect(await spool.stderr()).toEqual(expected);
  });

  it("counts an unterminated last line and bounds long ones", async () => {
    const spool = await createSpool(join(await makeFolder(), "s"));
    await writeFile(join(spool.folder, "err"), `x${"ä".repeat(1_000_000)}\n\nlast`);
    const { head, ...rest } = await spool.stderr();
    expect(rest).toEqual({ truncated: false, total_lines: 3 });
    expect(texts((head ?? "").split("\n").map((text) => ({ dir: "err", text, at: 0 })))).toEqual([
      `x${"ä".repeat(2_047)}…`,
      "",
      "last",
    ]);
  });
});

function range(from: number, to: number): string {
  return Array.from({ length: to - from + 1 }, (_, n) => from + n).join("\n");
}
