import { createSqliteLog } from "../../log/index.ts";
import { createEngine } from "../engine.ts";

/**
 * `caretaker FOLDER`: picks up the sessions of a data folder without a server, and ends the agents without a turn.
 * Exits with 0 while an agent still works, with 1 when nothing is left.
 */
const [dataDir = ""] = process.argv.slice(2);
const log = createSqliteLog({ folder: dataDir });
const engine = await createEngine({ log, dataDir, caretakes: true });
await engine.drain({ graceMs: 0 });
const left = await log.active();
await log.close();
process.exit(left.length > 0 ? 0 : 1);
