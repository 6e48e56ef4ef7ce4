import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Caretaker } from "../../src/sessions/upkeep/caretaker.ts";
import { processesWith } from "../support/engine.ts";

describe("the caretakers of one data folder", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "sluice-caretaker-"));
    await writeFile(join(folder, "log.db"), "");
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  const watches = async (): Promise<number> => (await processesWith(`\0${join(folder, "log.db")}\0`)).length;

  it("watch each engine by itself: one that comes and goes leaves that of the other", async () => {
    const first = new Caretaker({ dataDir: folder, afterMs: 60_000 });
    const second = new Caretaker({ dataDir: folder, afterMs: 60_000 });
    first.begin();
    second.begin();
    await expect.poll(watches).toBe(2);
    await second.end();
    await expect.poll(watches).toBe(1);
    await first.end();
    await expect.poll(watches).toBe(0);
    expect(await readdir(folder)).toEqual(["log.db"]);
  });

  it("begin beside damaged entries", async () => {
    await mkdir(join(folder, "caretaker-4194303", "inside"), { recursive: true });
    await writeFile(join(folder, "caretaker-x"), "");
    const only = new Caretaker({ dataDir: folder, afterMs: 60_000 });
    only.begin();
    await expect.poll(watches).toBe(1);
    await only.end();
    await expect.poll(watches).toBe(0);
  });

  it("end without a file that names their watch", async () => {
    const only = new Caretaker({ dataDir: folder, afterMs: 60_000 });
    only.begin();
    for (const name of await readdir(folder)) if (name !== "log.db") await rm(join(folder, name));
    await only.end();
    await expect.poll(watches).toBe(0);
  });
});
