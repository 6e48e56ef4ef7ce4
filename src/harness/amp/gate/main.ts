import { askGate } from "./ask.ts";
import { runBehindGate } from "./run.ts";

/**
 * `run FOLDER COMMAND…` is the agent's process. Amp starts `ask FOLDER` before a tool runs, by its rule `delegate`:
 * exit status 0 allows the call, 2 forbids it, with the reason on stderr.
 */
const [role, folder = ".", ...command] = process.argv.slice(2);

if (role === "run") runBehindGate(folder, command);
else await askGate(folder);
