import { runProgram } from "./program.ts";

// Not process.exit(): what is still on its way into a pipe would be lost.
process.exitCode = await runProgram(process.argv);
