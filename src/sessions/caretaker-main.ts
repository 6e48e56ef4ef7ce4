import { createSqliteLog } from "../log/index.ts";
import { createEngine } from "./engine.ts";

/**
 * `caretaker FOLDER`: picks up the sessions of a data folder that no server has, ends those of their agents that have no
 * turn, and lets go of the others. Exits with 0 while one of them still works, with 1 when nothing is left.
 */
const [dataDir = ""] = process.argv.slice(2);
const log = createSqliteLog({ folder: dataDir });
const engine = await createEngine({ log, dataDir, caretakes: true });
await engine.drain({ graceMs: 0 });
const left = await log.active();
await log.close();
process.exit(left.length > 0 ? 0 : 1);
