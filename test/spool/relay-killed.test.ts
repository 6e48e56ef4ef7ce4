import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createSpool } from "../../src/spool/index.ts";
import { findFeeder } from "../../src/spool/feeder.ts";
import { followAll, makeFolder, start, texts, waitFor } from "./workbench.ts";

/** The feeder's parent is the relay's shell, which would have ended it. */
async function killRelay(folder: string): Promise<number> {
  const feeder = await waitFor(async () => {
    const found = await findFeeder(folder);
    return typeof found === "number" && found;
  });
  const stat = await readFile(`/proc/${feeder}/stat`, "utf8");
  process.kill(Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]), "SIGKILL");
  return feeder;
}

async function isGone(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => ") X");
  return /\) [ZX]/.test(stat);
}

describe.skipIf(process.platform !== "linux")("a relay whose shell was killed (needs /proc)", () => {
  it("loses no input or output of its process", async () => {
    const spool = await createSpool(join(await makeFolder(), "s"));
    await start(spool, ["head", "-n", "2"]);
    await spool.send({ id: "1", at: 0, text: "one\n" });
    await killRelay(spool.folder);
    await spool.send({ id: "2", at: 0, text: "two\n" });
    const { lines, last } = await followAll(spool);
    expect(texts(lines)).toEqual(["one", "two"]);
    expect(last.exit).toEqual({ code: 0 });
  });

  it("leaves no feeder behind when its process has ended", async () => {
    const spool = await createSpool(join(await makeFolder(), "s"));
    await start(spool, ["head", "-n", "1"]);
    const feeder = await killRelay(spool.folder);
    await spool.send({ id: "1", at: 0, text: "one\n" });
    await followAll(spool);
    await expect.poll(() => isGone(feeder)).toBe(true);
  });

  it("leaves no feeder behind when its spool is removed", async () => {
    const spool = await createSpool(join(await makeFolder(), "s"));
    const pid = await start(spool, ["cat"]);
    const feeder = await killRelay(spool.folder);
    process.kill(-pid, "SIGKILL");
    await spool.remove();
    await expect.poll(() => isGone(feeder)).toBe(true);
  });
});
