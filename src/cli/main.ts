import { runProgram } from "./program.ts";

// Not process.exit(): output in a pipe would be lost.
void runProgram(process.argv).then((code) => {
  process.exitCode = code;
});
