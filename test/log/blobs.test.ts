import { mkdir, mkdtemp, readdir, rm, stat, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { EventDraft } from "../../src/contract/index.ts";
import { createSqliteLog } from "../../src/log/index.ts";
import type { EventLog } from "../../src/log/index.ts";
import { fromOutline, toOutline } from "../../src/log/large-texts.ts";
import { createDriver } from "../../src/sqlite/driver.ts";
import { append, createSession, failsWith, readAll, toDeltas } from "../../src/log/testkit/suite.ts";

describe("a large output", () => {
  let folder: string;
  let log: EventLog;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "sluice-blobs-"));
    log = createSqliteLog({ folder });
    for (const id of ["s", "t"]) await createSession(log, id);
  });
  afterEach(async () => {
    await log.close();
    await rm(folder, { recursive: true });
  });
  const reopen = async (): Promise<void> => {
    await log.close();
    log = createSqliteLog({ folder });
  };
  const files = async (): Promise<string[]> => {
    const entries = await readdir(join(folder, "blobs"), { recursive: true, withFileTypes: true }).catch(
      () => [],
    );
    return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  };

  it("is stored once, and goes with its last reference", async () => {
    const text = "a".repeat(40_000);
    await append(log, "s", [toDiff(text), toDiff(text), { ...toDiff("small"), raw: text }]);
    await append(log, "t", [toDiff(text)]);
    expect(await files()).toHaveLength(1);
    expect((await stat((await files())[0] ?? "")).mode & 0o777).toBe(0o600);
    await log.trim("s", 2);
    await log.remove("s");
    expect(await files()).toHaveLength(1);
    await reopen();
    expect(JSON.parse((await readAll(log, "t"))[0]?.body ?? "").data.diff).toBe(text);
    await log.remove("t");
    expect(await files()).toEqual([]);
  });

  it("goes when it is trimmed away", async () => {
    await append(log, "s", [toDiff("a".repeat(40_000))]);
    await append(log, "s", [toDiff("b".repeat(40_000))]);
    await log.trim("s", 1);
    expect(await files()).toHaveLength(1);
    expect(JSON.parse((await readAll(log, "s", { after: 1 }))[0]?.body ?? "").data.diff).toMatch(/^b+$/);
  });

  it("leaves no file when its batch fails", async () => {
    await failsWith("fenced", append(log, "s", [toDiff("c".repeat(40_000))], { epoch: 9 }));
    expect(await files()).toEqual([]);
  });

  it("leaves no file when its writer died before the commit", async () => {
    const hash = "ab".repeat(32);
    await mkdir(join(folder, "blobs", "ab"), { recursive: true });
    for (const name of [hash, `${hash}.1.tmp`]) await writeFile(join(folder, "blobs", "ab", name), "half");
    const driver = createDriver(join(folder, "log.db"));
    driver.prepare("INSERT INTO blob_doubts (hash) VALUES (?)").run(hash);
    driver.close();
    await reopen();
    expect(await files()).toEqual([]);
  });

  it.each([
    ["missing", (file: string) => rm(file)],
    ["cut short", (file: string) => truncate(file, 10)],
  ])("that is %s on disk is told as a damaged event, and all others can be read", async (_, harm) => {
    await append(log, "s", [...toDeltas(2), toDiff("d".repeat(40_000)), ...toDeltas(2)]);
    await reopen();
    await readAll(log, "s");
    for (const file of await files()) await harm(file);
    for (let starts = 0; starts < 2; starts++) {
      const events = await log.read("s", { after: 0, limit: 10 });
      expect(events.map(({ body }) => JSON.parse(body).sequence)).toEqual([1, 2, 3, 4, 5]);
      expect(events[2]?.type).toBe("agent.unparsed");
      expect(await log.read("s", { after: 0, limit: 10, types: new Set(["item.delta"]) })).toHaveLength(4);
      const diffs = new Set(["workspace.diffed"] as const);
      expect(await log.read("s", { after: 0, limit: 10, types: diffs })).toEqual([]);
      await reopen();
    }
  });

  it("cannot be forged by an agent's output", async () => {
    const hash = (await import("node:crypto")).createHash("sha256").update("e".repeat(40_000)).digest("hex");
    const forged = `@0:${hash} {"sequence":1}`;
    await append(log, "t", [toDiff("e".repeat(40_000))]);
    const drafts = [
      toDiff(forged),
      { ...toDiff("x"), raw: `@${hash}` },
      toDiff(`${forged}${"f".repeat(40_000)}`),
    ];
    await append(log, "s", drafts);
    await reopen();
    const events = await readAll(log, "s", { raw: true });
    expect(events.map((event) => JSON.parse(event.body).data)).toEqual(drafts.map((draft) => draft.data));
    expect(events[1]?.raw).toBe(`@${hash}`);
  });

  it("leaves a short outline, whose text is the event's again to the byte", () => {
    const long = '"\\" \\ \n ü'.repeat(10_000);
    const text = JSON.stringify({
      sequence: 1,
      data: { [long]: [long, "", "\\", '"', { long }], tail: "\\\\" },
    });
    const outline = toOutline(text);
    expect(outline?.line.length).toBeLessThan(400);
    expect(outline?.line).not.toContain("\n");
    expect(new Set(outline?.blobs.map((blob) => blob.hash)).size).toBe(1);
    expect(fromOutline(outline?.line ?? "", () => long)).toBe(text);
    expect(
      toOutline(JSON.stringify({ many: Array.from({ length: 5000 }, () => "short text") })),
    ).toBeUndefined();
  });
});

function toDiff(diff: string): EventDraft {
  return { type: "workspace.diffed", source: "daemon", data: { path: ".", diff } };
}
