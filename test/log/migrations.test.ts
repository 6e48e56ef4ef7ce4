import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { SluiceError } from "../../src/contract/index.ts";
import { createSqliteLog } from "../../src/log/index.ts";
import { createDriver } from "../../src/sqlite/driver.ts";
import { MIGRATIONS } from "../../src/log/sqlite/migrations.ts";
import { openStore } from "../../src/log/sqlite/open.ts";
import { append, createSession, readAll, toDeltas } from "../../src/log/testkit/suite.ts";
import { buildProgram } from "./program.ts";
import type { Program } from "./program.ts";

const KNOWN = MIGRATIONS.at(-1)?.version ?? 0;

describe("the data folder", () => {
  let folder: string;
  let migrator: Program;
  beforeAll(async () => (migrator = await buildProgram("migrator")));
  afterAll(() => migrator.dispose());
  beforeEach(async () => (folder = await mkdtemp(join(tmpdir(), "sluice-data-"))));
  afterEach(() => rm(folder, { recursive: true }));

  it("numbers its migrations from 1, without a gap", () => {
    expect(MIGRATIONS.map((migration) => migration.version)).toEqual(MIGRATIONS.map((_, index) => index + 1));
  });

  it("is ours, too, where another process makes it between two reads of its header", async () => {
    let reads = 0;
    const store = openStore({ folder }, (path) => {
      const driver = createDriver(path);
      return {
        ...driver,
        prepare: (sql) => {
          const statement = driver.prepare(sql);
          const get: typeof statement.get = (...values) => {
            const row = statement.get(...values);
            if (++reads === 1) openStore({ folder }).close();
            return row;
          };
          return { ...statement, get };
        },
      };
    });
    expect(reads).toBeGreaterThan(1);
    store.close();
  });

  it("is made with its parents, closed to others", async () => {
    const deep = join(folder, "a", "b");
    const log = createSqliteLog({ folder: deep });
    await createSession(log, "s");
    await append(log, "s", [
      { type: "workspace.diffed", source: "daemon", data: { path: ".", diff: "x".repeat(50_000) } },
    ]);
    expect((await stat(join(folder, "a"))).mode & 0o777).toBe(0o700);
    expect((await stat(deep)).mode & 0o777).toBe(0o700);
    expect((await stat(join(deep, "blobs"))).mode & 0o777).toBe(0o700);
    for (const name of ["log.db", "log.db-wal", "log.db-shm"]) {
      expect((await stat(join(deep, name))).mode & 0o777).toBe(0o600);
    }
    await log.close();
  });

  it.each(["before the first", "in the first", "before the second", "in the second", "after the second"])(
    "survives a kill %s migration",
    async (moment) => {
      const killed = migrator.start(folder, moment);
      expect((await killed.exit()).signal).toBe("SIGKILL");
      if (moment.includes("first")) {
        const log = createSqliteLog({ folder });
        await createSession(log, "s");
        await log.close();
      }
      const again = migrator.start(folder, "never");
      expect(await again.exit()).toMatchObject({ code: 0, stderr: "" });
      const driver = createDriver(join(folder, "log.db"));
      expect(
        driver
          .prepare("SELECT version FROM migrations ORDER BY version")
          .all()
          .map((row) => row.version),
      ).toEqual(Array.from({ length: KNOWN + 1 }, (_, index) => index + 1));
      expect(driver.prepare("SELECT count(*) AS count FROM novelties").get()?.count).toBe(0);
      driver.close();
    },
  );

  it("of an older version is brought up with all its events", async () => {
    const log = createSqliteLog({ folder });
    await createSession(log, "s");
    await append(log, "s", toDeltas(10));
    const before = await readAll(log, "s");
    await log.close();
    expect(await migrator.start(folder, "never").exit()).toMatchObject({ code: 0 });
    const driver = createDriver(join(folder, "log.db"));
    expect(driver.prepare("SELECT bodies FROM segments").get()?.bodies).toBe(
      before.map((event) => event.body).join("\n"),
    );
    driver.close();
  });

  it("of a newer version is refused, and told which", async () => {
    expect(await migrator.start(folder, "never").exit()).toMatchObject({ code: 0 });
    const before = await readFile(join(folder, "log.db"));
    const failure = refusal(() => createSqliteLog({ folder }));
    expect(failure.code).toBe("data_version");
    expect(failure.facts).toMatchObject({ found: KNOWN + 1, known: KNOWN });
    expect(failure.message).toContain(`version ${KNOWN + 1}`);
    expect(failure.message).toContain("--data");
    expect(await readFile(join(folder, "log.db"))).toEqual(before);
  });

  it("with another program's database is refused, and left as it is", async () => {
    const driver = createDriver(join(folder, "log.db"));
    driver.exec("CREATE TABLE theirs (id INTEGER)");
    driver.close();
    const before = await readFile(join(folder, "log.db"));
    expect(refusal(() => createSqliteLog({ folder })).message).toContain("not a sluice database");
    expect(await readFile(join(folder, "log.db"))).toEqual(before);
  });

  it("with a file that is no database is refused, and left as it is", async () => {
    await writeFile(join(folder, "log.db"), "these are my notes\n".repeat(100));
    expect(refusal(() => createSqliteLog({ folder }))).toMatchObject({ code: "data_version" });
    expect(await readFile(join(folder, "log.db"), "utf8")).toContain("my notes");
  });

  it("that cannot be one is refused with the reason", async () => {
    await writeFile(join(folder, "file"), "");
    expect(refusal(() => createSqliteLog({ folder: join(folder, "file", "data") })).message).toContain(
      "ENOTDIR",
    );
    await mkdir(join(folder, "log.db"));
    expect(refusal(() => createSqliteLog({ folder })).message).toContain("EISDIR");
  });
});

function refusal(work: () => unknown): SluiceError {
  try {
    work();
  } catch (error) {
    if (error instanceof SluiceError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}
