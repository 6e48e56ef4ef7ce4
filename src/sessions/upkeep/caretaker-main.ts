import { existsSync } from "node:fs";
import { join } from "node:path";
import { createSqliteLog } from "../../log/index.ts";
import { createEngine } from "../engine.ts";

/**
 * `caretaker FOLDER`: picks up the sessions of a data folder without a server, and ends the agents without a turn.
 * Exits with 0 while an agent still works, with 1 when nothing is left.
 */
const [dataDir = ""] = process.argv.slice(2);
// The folder's sessions are in a database now, and a node looks after its agents.
if (existsSync(join(dataDir, "database"))) process.exit(1);
const log = createSqliteLog({ folder: dataDir });
const engine = await createEngine({ log, dataDir, caretakes: true });
await engine.drain({ graceMs: 0 });
const left = await log.active();
await log.close();
process.exit(left.length > 0 ? 0 : 1);
