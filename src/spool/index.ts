export { wholeCharacters } from "./reader.ts";
export { exitCodeOf } from "./process.ts";
export { isShortened } from "./shortened.ts";
export { createSpool, hostFolderOf, MAX_SPOOL_BYTES, openSpool, type SpoolOptions } from "./spool.ts";
export type { HostSpool, OutputBatch, SentEntry, Spool, SpoolBatch, WrappedStart } from "./port.ts";
export { toStderr, type Cleaning, type StderrLines } from "./stderr.ts";
