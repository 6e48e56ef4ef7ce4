import { join } from "node:path";
import { createDriver } from "../../../src/sqlite/driver.ts";
import { MIGRATIONS, toLogSchema } from "../../../src/log/sqlite/migrations.ts";
import { migrate, type Migration } from "../../../src/sqlite/migrations.ts";

/** Migrates one version further than the build knows, and dies at the named moment. */
const [folder = "", moment] = process.argv.slice(2);
const last = MIGRATIONS.at(-1)?.version ?? 0;
const die = (when: string): void => {
  if (moment === when) process.kill(process.pid, "SIGKILL");
};
const migrations: Migration[] = MIGRATIONS.map((migration) => ({
  version: migration.version,
  apply: (driver) => {
    die("before the first");
    migration.apply(driver);
    die("in the first");
  },
}));
migrations.push({
  version: last + 1,
  apply: (driver) => {
    die("before the second");
    driver.exec("CREATE TABLE novelties (id INTEGER PRIMARY KEY)");
    driver.exec("ALTER TABLE sessions ADD COLUMN novelty TEXT");
    die("in the second");
  },
});
const driver = createDriver(join(folder, "log.db"));
driver.prepare("PRAGMA journal_mode = WAL").all();
migrate(driver, toLogSchema({ folder, migrations }));
die("after the second");
process.stdout.write("migrated\n");
